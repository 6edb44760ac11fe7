"""Starts Spark: refuses invalid masters, reports failures in one line, and hides the lines that each start prints."""

# pyright: reportUnknownMemberType=false
# pyspark's types are incomplete

import os
import re
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, cast

from odradek.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STDERR: Final = 2
STANDALONE: Final = "spark://"
CONNECT_S: Final = 10.0
START_LINES: Final = (
    b"WARNING: Using incubator modules: jdk.incubator.vector",
    b'Setting default log level to "',
    b"To adjust logging level use sc.setLogLevel(newLevel).",
)
"""Prefixes of the lines that every start of PySpark prints in every configuration, and that carry no information."""
_MASTER: Final = re.compile(
    r"local(\[\s*(\*|[1-9]\d*)\s*(,\s*\d+\s*)?\])?|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]|"
    r"spark://[^,\s]+:\d+(,[^,\s]+:\d+)*|yarn|k8s://\S+"
)
_RELAY: Final = f"""
import os, sys
for line in sys.stdin.buffer:
    if not line.startswith({START_LINES!r}):
        os.write({STDERR}, line)
"""
_relays: "list[subprocess.Popen[bytes]]" = []
"""Keeps the processes referenced: `Popen` warns when an object of a running process is deleted."""
_CAUSE: Final = re.compile(r"^(?:Caused by: |: )?(?:[\w$]+\.)+(?:[\w$]*(?:Exception|Error)): (.+)")


def check_master(master: str) -> None:
    """Raise PipelineError for a master that Spark would refuse, before a JVM is started."""
    if not _MASTER.fullmatch(master):
        raise PipelineError(
            f"{master!r} is no master of Spark, which is local[*], local[2], spark://HOST:PORT, yarn or k8s://URL"
        )


def check_answers(master: str) -> None:
    """Raise PipelineError if no standalone master answers: Spark would fail after a minute, with a traceback."""
    if not master.startswith(STANDALONE):
        return
    addresses = master.removeprefix(STANDALONE).split(",")
    errors = [error for one in addresses if (error := _connect(one)) is not None]
    if len(errors) == len(addresses):
        raise PipelineError(f"no master of Spark answers at {master}: {errors[0]}")


def _connect(address: str) -> OSError | None:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
    except OSError as error:
        return error
    return None


def start(builder: Any) -> "SparkSession":  # noqa: ANN401 - a SparkSession.Builder, of which pyspark has two
    """Return the session. Raises PipelineError with the root cause if Spark does not start."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        with without_start_lines():
            return builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        raise PipelineError(f"Spark does not start: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [found[1] for line in lines if (found := _CAUSE.match(line))]
    return (causes or lines or [type(error).__name__])[-1 if causes else 0]


@contextmanager
def without_start_lines() -> Generator[None]:
    """Hide the lines of `START_LINES` on a terminal, if the JVM is started in the block.

    The stderr of the JVM and its children is a pipe, from which another process copies all other lines to the terminal.
    It is a process, not a thread, since the JVM ends after this process and may write until then.
    """
    from pyspark import SparkContext

    running: Any = cast("Any", SparkContext)._gateway  # noqa: SLF001 - no public name says whether a JVM runs
    if running is not None or not sys.stderr.isatty():
        yield
        return
    sys.stderr.flush()
    terminal = os.dup(STDERR)
    relay = _start_relay()
    failed = True
    try:
        yield
        failed = False
    finally:
        sys.stderr.flush()
        os.dup2(terminal, STDERR)
        os.close(terminal)
        if failed:
            with suppress(subprocess.TimeoutExpired):
                relay.wait(1.0)  # a failed JVM's output is printed before the error


def _start_relay() -> "subprocess.Popen[bytes]":
    """Start a process that copies stderr to the terminal from now on; it ends with the pipe, not by Ctrl-C."""
    reader, writer = os.pipe()
    program = [sys.executable, "-I", "-S", "-c", _RELAY]
    relay = subprocess.Popen(program, stdin=reader, stdout=subprocess.DEVNULL, start_new_session=True)  # noqa: S603
    _relays.append(relay)
    os.close(reader)
    os.dup2(writer, STDERR)
    os.close(writer)
    return relay
