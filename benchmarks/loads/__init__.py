"""Load generators. Each is a separate process, so that its CPU is not the broker's, and prints one JSON object."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any

from benchmarks.cases import NotMeasuredError


class Load:
    """A running load generator: the function `kind` of `benchmarks.loads.MODULE`, with keyword arguments."""

    def __init__(self, module: str, kind: str, arguments: Mapping[str, Any]) -> None:
        self._name = f"{module}.{kind}"
        command = [sys.executable, "-m", f"benchmarks.loads.{module}", kind, json.dumps(arguments)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self._process = subprocess.Popen(command, **pipes, text=True)

    def await_line(self, line: str, timeout_s: float) -> None:
        """Wait until it prints `line` on its standard output. Raises NotMeasuredError."""
        assert self._process.stdout is not None
        watchdog = threading.Timer(timeout_s, self._process.kill)  # ends a read that would wait too long
        watchdog.start()
        printed = self._process.stdout.readline().strip()
        watchdog.cancel()
        if printed != line:
            self.result(timeout_s)
            raise NotMeasuredError(f"the load {self._name} printed {printed!r} instead of {line!r}")

    def go_on(self) -> None:
        """Send a line to a load that waits for one before it continues."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def result(self, timeout_s: float) -> dict[str, float]:
        """Wait until it ends, and return its JSON object. Raises NotMeasuredError."""
        try:
            out, err = self._process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise NotMeasuredError(f"the load {self._name} did not end within {timeout_s:.0f} s") from error
        if self._process.returncode != 0:
            raise NotMeasuredError(f"the load {self._name} failed: {_last_line(err)}")
        return json.loads(out)

    def kill(self) -> None:
        """Kill it; does nothing if it has ended."""
        self._process.kill()
        self._process.communicate()


def run_load(module: str, kind: str, *, timeout_s: float = 60, **arguments: Any) -> dict[str, float]:  # noqa: ANN401
    """Run one load until it ends, and return its figures. Raises NotMeasuredError."""
    return Load(module, kind, arguments).result(timeout_s)


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:300] if lines else "it printed nothing"
