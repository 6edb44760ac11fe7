"""The processes of the demo: the broker, the consumers, and commands that are run to their end."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self, cast

from odradek.gateway.config.sources import variables
from odradek.pipeline.errors import PipelineError

START_TIMEOUT_S: Final = 30.0
STOP_TIMEOUT_S: Final = 10.0
COMMAND_TIMEOUT_S: Final = 180.0
_LAST_BYTES: Final = 2_000


class DemoError(PipelineError):
    """The demo cannot go on; the message has the reason."""


def clean_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment without the user's settings of brokers, which would also apply to the demo's."""
    given = os.environ if environ is None else environ
    settings = {variable for variable, _, _ in variables(given)}
    return {name: text for name, text in given.items() if name not in settings}


class Child:
    """A Python module that runs as a process until it is stopped or killed, or this process ends.

    Its standard input is a pipe whose end tells it to stop; its stderr is appended to a file in `logs`.
    """

    def __init__(self, name: str, logs: Path, *module: str) -> None:
        self.name = name
        self._log = logs / f"{name}.log"
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-m", *module],
                env=clean_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )

    def require_alive(self) -> None:
        """Raise DemoError with the last line of its log if it has ended."""
        if self.process.poll() is not None:
            raise DemoError(f"{self.name} has ended with {self.process.returncode}: {last_line(self._log)}")

    def finish(self) -> str:
        """Send it a line, and return its standard output when it has ended. Raises DemoError if it fails."""
        try:
            output, _ = self.process.communicate(b"\n", COMMAND_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise DemoError(f"{self.name} took more than {COMMAND_TIMEOUT_S:g} s") from error
        if self.process.returncode:
            self.require_alive()
        return output.decode()

    def kill(self) -> None:
        """End it at once, as a crash does: nothing is flushed, connections break."""
        self.process.kill()
        self._reap()

    def stop(self) -> None:
        """Ask it to end, and kill it if it does not in time. Does nothing if it has ended."""
        self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self._reap()

    def _reap(self) -> None:
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


class Broker:
    """`odradek serve` in one directory, which can be killed and started again at the same address."""

    def __init__(self, data: Path, logs: Path, settings: Sequence[str]) -> None:
        self._arguments = ["serve", "--data", str(data), "--until-stdin-ends", "--log-format", "json"]
        for setting in settings:
            self._arguments += ["--set", setting]
        self._logs = logs
        self._child: Child | None = None
        self.bootstrap = "127.0.0.1:0"
        self.ready_ms = 0

    def start(self) -> Self:
        """Start it, and return when clients can connect. Raises DemoError."""
        child = self._child = Child("broker", self._logs, "odradek", *self._arguments, "--listen", self.bootstrap)
        assert child.process.stdout is not None
        line = child.process.stdout.readline()
        if not line:
            child.process.wait(START_TIMEOUT_S)
            child.require_alive()
        ready = cast("dict[str, Any]", json.loads(line))
        self.bootstrap, self.ready_ms = str(ready["bootstrap"]), int(ready["ready_ms"])
        return self

    def kill(self) -> None:
        """End it at once, as a crash does."""
        assert self._child is not None
        self._child.kill()

    def stop(self) -> None:
        """Stop it."""
        if self._child is not None:
            self._child.stop()


def output_of(what: str, log: Path, *module: str) -> str:
    """The standard output of a Python module that runs to its end. Raises DemoError if it fails."""
    try:
        with log.open("wb") as errors:
            done = subprocess.run(  # noqa: S603 - our own module
                [sys.executable, "-m", *module],
                env=clean_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                timeout=COMMAND_TIMEOUT_S,
                check=False,
            )
    except subprocess.TimeoutExpired as error:
        raise DemoError(f"{what} took more than {COMMAND_TIMEOUT_S:g} s") from error
    if done.returncode:
        raise DemoError(f"{what} has ended with {done.returncode}: {last_line(log)}")
    return done.stdout.decode()


def last_line(log: Path) -> str:
    """The last line of a log that is not empty."""
    lines = log.read_text(encoding="utf-8", errors="replace")[-_LAST_BYTES:].strip().splitlines()
    return lines[-1].strip() if lines else "it has written nothing"
