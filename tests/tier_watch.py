"""Fails a test that starts what its tier must not need, so that no test is in a tier where it cannot run.

Tests of `rest` are not watched: all tools are there.
"""

from __future__ import annotations

import os
import sys
from pathlib import PurePath
from typing import Any

import pytest

from tests.tiers import marks

PROGRAMS = {"java": {"java", "spark"}, "postgres": {"postgres"}, "initdb": {"postgres"}, "docker": {"containers"}}
"""Programs, and the marks of which one must be there besides `processes`."""
WITHIN = ("127.", "::1", "localhost", "0.0.0.0", "::")
"""How addresses begin that stay on this machine."""


class TierWatch:
    """Records what the running test starts; a plugin of pytest. A process cannot remove its audit hook."""

    def __init__(self) -> None:
        self._allowed: set[str] | None = None
        self._wrong: list[str] = []
        sys.addaudithook(self._audited)

    def _audited(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._allowed is None or event not in _EVENTS:
            return
        if (wrong := _EVENTS[event](self._allowed, arguments)) is not None:
            self._wrong.append(wrong)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item):
        """From here on all that the process starts is on the test's account, unless it is in `rest`."""
        names = marks(item)
        self._allowed, self._wrong = None if "rest" in names else names, []
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self):
        """Fails the test after its own clean-up."""
        try:
            result = yield
        finally:
            wrong, self._allowed = self._wrong, None
        if wrong:
            pytest.fail("\n".join(sorted(set(wrong))), pytrace=False)
        return result


def _started(allowed: set[str], arguments: tuple[Any, ...]) -> str | None:
    program = PurePath(os.fsdecode(arguments[0])).name
    if "processes" not in allowed:
        return f"this test starts {program}, and nothing marks it `processes` (tests/tiers.py)"
    of = PROGRAMS.get(program, allowed)
    return None if of & allowed else f"this test starts {program}, and nothing marks it {sorted(of)} (tests/tiers.py)"


def _forked(allowed: set[str], _: tuple[Any, ...]) -> str | None:
    return None if "processes" in allowed else "this test forks, and nothing marks it `processes` (tests/tiers.py)"


def _connected(allowed: set[str], arguments: tuple[Any, ...]) -> str | None:
    address = arguments[1]
    if "unit" not in allowed or not isinstance(address, tuple) or str(address[0]).startswith(WITHIN):
        return None
    return f"this test of the tier `unit` connects to {address[0]}: it may use no network"


_EVENTS = {"subprocess.Popen": _started, "os.fork": _forked, "os.posix_spawn": _started, "socket.connect": _connected}
