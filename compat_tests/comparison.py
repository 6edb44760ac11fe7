"""Runs one case on both sides, compares the observations and keeps the matrix."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from compat_tests.brokers import Broker
from compat_tests.catalogue import CASES, CLIENTS, NOT_APPLICABLE
from compat_tests.differences import KNOWN, Difference
from compat_tests.frames import await_leaders, create_topic
from odradek.wire.api_keys import ApiKey

LIMIT_S = 240
"""The limit for one case on both sides; longer than any of its waits."""

Observation = Any  # dicts, lists, strings, numbers, None: JSON values


class Side:
    """The interface of a case: one broker, topics with the same names on both sides, and shared resources."""

    def __init__(self, broker: Broker, prefix: str, resources: Resources) -> None:
        self.broker, self.prefix, self.resources = broker, prefix, resources
        self._partitions: dict[str, int] = {}

    @property
    def bootstrap(self) -> str:
        return self.broker.bootstrap

    def name(self, what: str = "topic") -> str:
        """A topic or group name that no other case uses."""
        return f"{self.prefix}.{what}"

    def topic(self, what: str = "topic", partitions: int = 1, **configs: str) -> str:
        """Creates a topic and returns its name; in ``configs``, ``_`` stands for ``.``."""
        name = self.name(what)
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        error = create_topic(self.bootstrap, name, partitions, settings, self.broker.replicas)
        assert error == "NONE", f"CreateTopics {name}: {error}"
        self._partitions[name] = partitions
        return name

    def crash_and_restart(self) -> None:
        """``kill -9`` the broker and starts it again; returns when it serves this case's topics."""
        self.broker.crash()
        self.broker.restart()
        for name, partitions in self._partitions.items():
            await_leaders(self.bootstrap, name, partitions)


@dataclass
class Resources:
    """Resources that are slow to start and shared by cases: started at first use, stopped with the session."""

    make_spark: Callable[[], Any]
    _spark: Any = None
    _starting: threading.Lock = field(default_factory=threading.Lock)

    def spark(self) -> Any:
        with self._starting:
            self._spark = self._spark or self.make_spark()
        return self._spark

    def close(self) -> None:
        if self._spark is not None:
            self._spark.stop()
            self._spark = None


@dataclass(frozen=True)
class Case:
    """One script; ``row`` is the row of the matrix that it belongs to."""

    client: str
    row: str
    name: str
    run: Callable[[Side], Observation]
    needs: str

    @property
    def prefix(self) -> str:
        return re.sub(r"[^A-Za-z0-9._-]", "-", f"{self.client}.{self.name}")

    @property
    def marks(self) -> list[pytest.MarkDecorator]:
        """The time limit, and Spark if the case uses it."""
        limit = pytest.mark.timeout(LIMIT_S, func_only=True)
        return [limit, pytest.mark.spark] if self.client == "spark" else [limit]


class CaseBook:
    """The cases of one client, collected by a decorator."""

    def __init__(self, client: str, *, needs: str = "") -> None:
        assert client in CLIENTS
        self.client, self._needs = client, needs
        self.cases: list[Case] = []

    def case(self, row: str, *, name: str | None = None) -> Callable[[Any], Any]:
        """Registers ``run(side) -> observation`` under a row of the catalogue; ``name`` if a row has several."""
        assert row in CASES, row

        def register(run: Callable[[Side], Observation]) -> Callable[[Side], Observation]:
            self.add(row, run, name=name)
            return run

        return register

    def add(self, row: str, run: Callable[[Side], Observation], *, name: str | None = None) -> None:
        """Registers without the decorator, for scenarios that several clients share."""
        case = Case(self.client, row, name or row, run, self._needs)
        assert case.name not in {other.name for other in self.cases}, f"{case.name} is there twice"
        self.cases.append(case)

    def params(self) -> list[Any]:
        """For ``pytest.mark.parametrize("case", ...)``."""
        return [pytest.param(c, id=c.name, marks=c.marks) for c in self.cases]


@dataclass
class Outcome:
    """One line of the session's result."""

    case: Case
    status: str
    detail: str = ""
    seconds: dict[str, float] = field(default_factory=dict)


class Comparison:
    """Both brokers, and the outcome of every case that ran."""

    def __init__(self, kafka: Broker | None, odradek: Broker, resources: Resources, prefix: str = "") -> None:
        self.kafka, self.odradek, self.resources = kafka, odradek, resources
        self.prefix = prefix
        """The prefix of names; comparisons that share a broker have different ones."""
        self.outcomes: list[Outcome] = []
        self.driven: set[tuple[ApiKey, int]] = set()
        """Versions of APIs whose answers were compared and found equal."""

    def check(self, case: Case) -> None:
        """Runs the case on both sides; fails with the differences that have no explanation."""
        if case.needs and is_missing(case.needs):
            self.outcomes.append(Outcome(case, "not run", f"no {case.needs}"))
            pytest.skip(f"not run: no {case.needs}, and the environment says that this is known")
        outcome = Outcome(case, "failed", "raised")
        self.outcomes.append(outcome)
        if self.kafka is None:
            self._observe(self.odradek, case, outcome)
            outcome.status, outcome.detail = "not compared", "no real Kafka without Java: ran on Odradek only"
            return
        # Most of a case is waiting, so the sides run in parallel. They share nothing but the Spark session.
        with ThreadPoolExecutor(2, thread_name_prefix="side") as pool:
            sides = [pool.submit(self._observe, broker, case, outcome) for broker in (self.kafka, self.odradek)]
        expected, seen = (side.result() for side in sides)
        self._judge(outcome, expected, seen)

    def _observe(self, broker: Broker, case: Case, outcome: Outcome) -> Observation:
        started = time.monotonic()
        try:
            return plain(case.run(Side(broker, self.prefix + case.prefix, self.resources)))
        except Exception as error:
            error.add_note(f"on {broker.name} ({broker.provider}) in {case.client}/{case.name}")
            if hasattr(broker, "log_tail"):
                error.add_note(f"its log ends:\n{broker.log_tail()}")
            outcome.detail = f"raised on {broker.name}"
            raise
        finally:
            outcome.seconds[broker.provider.split(",")[0]] = time.monotonic() - started

    def _judge(self, outcome: Outcome, expected: Observation, seen: Observation) -> None:
        case = outcome.case
        known = [d for d in KNOWN if d.is_about(case.client, case.name)]
        found = dict(differences(expected, seen))
        unexplained = {p: pair for p, pair in found.items() if not _explained(known, case, p)}
        stale = [d for d in known if not any(d.covers(case.client, case.name, p) for p in found)]
        outcome.detail = "differs"
        assert not unexplained, _report(case, unexplained)
        assert not stale, f"listed in differences.py but no longer seen: {stale}"
        reasons = sorted({d.reason for d in known for p in found if d.covers(case.client, case.name, p)})
        outcome.status = "different" if found else "same"
        outcome.detail = "; ".join(reasons)


def _explained(known: Iterable[Difference], case: Case, path: str) -> bool:
    return any(d.covers(case.client, case.name, path) for d in known)


def _report(case: Case, unexplained: dict[str, tuple[Any, Any]]) -> str:
    lines = [f"{case.client}/{case.name}: {len(unexplained)} path(s) differ (Apache Kafka | Odradek)"]
    for path, (expected, seen) in list(unexplained.items())[:25]:
        lines.append(f"  {path}: {_short(expected)} | {_short(seen)}")
    return "\n".join(lines)


def _short(value: Any) -> str:
    text = "(nothing)" if value is _MISSING else json.dumps(value)
    return text if len(text) < 300 else text[:300] + "..."


_MISSING = object()


def plain(value: Any) -> Observation:
    """The observation as JSON values: bytes as text, tuples as lists, keys as strings."""
    if isinstance(value, dict):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((plain(item) for item in value), key=json.dumps)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("latin-1")
    assert value is None or isinstance(value, str | int | float | bool), f"{value!r} cannot be compared"
    return value


def differences(expected: Any, seen: Any, path: str = "") -> Iterable[tuple[str, tuple[Any, Any]]]:
    """The differences of two observations, by dotted paths."""
    if isinstance(expected, dict) and isinstance(seen, dict):
        for key in [*expected, *(k for k in seen if k not in expected)]:
            here = f"{path}.{key}" if path else key
            yield from differences(expected.get(key, _MISSING), seen.get(key, _MISSING), here)
    elif isinstance(expected, list) and isinstance(seen, list) and len(expected) == len(seen):
        for index, pair in enumerate(zip(expected, seen, strict=True)):
            yield from differences(*pair, f"{path}[{index}]")
    elif expected is _MISSING or seen is _MISSING or expected != seen or type(expected) is not type(seen):
        yield path, (expected, seen)


def is_missing(what: str) -> bool:
    """True if the variable of a program, such as ``ODRADEK_NO_JAVA=1``, states that it is not installed.

    Without its variable, a missing program fails the tests that need it.
    """
    return os.environ.get(f"ODRADEK_NO_{what.upper()}") == "1"


def is_applicable(client: str, row: str) -> bool:
    """True if the pair belongs to the suite."""
    return (client, row) not in NOT_APPLICABLE
