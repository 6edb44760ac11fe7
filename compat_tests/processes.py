"""Ports, and child processes and containers that are cleaned up whichever way the test run ends."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from odradek.gateway.testing.ports import free_ports

ROOT = Path(__file__).resolve().parent.parent


def free_port() -> int:
    """A port without a listener, reserved for this process (`odradek.gateway.testing.ports`)."""
    return free_ports(1)[0]


class Guard:
    """Runs one shell command when released, or when this process has ended, even by ``kill -9``.

    A helper shell waits for the end of its standard input, which the system closes at our end.
    """

    def __init__(self, command: str) -> None:
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", f"read -r _; {command}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def release(self) -> None:
        """Runs the command now and waits for it; a second call does nothing."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait(timeout=60)


class Daemon:
    """A child process in its own session whose output goes to a file; it is killed when we end."""

    def __init__(self, command: list[str], *, log: Path, env: dict[str, str] | None = None) -> None:
        self.log = log
        self._output = log.open("ab")
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
        self._guard = Guard(f"kill -9 -{self.process.pid}")

    def kill(self) -> None:
        """``kill -9`` the whole process group and waits until it has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=30)
        self._guard.release()
        self._output.close()

    def terminate(self, timeout_s: float = 20.0) -> int | None:
        """SIGTERM, a wait, then ``kill -9`` for what is left; returns the exit code of a clean end, else None."""
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=timeout_s)
        code = self.process.poll()
        self.kill()
        return code

    def tail(self, lines: int = 15) -> str:
        """The end of the output, for error messages."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])


def remove_tree_guard(path: Path) -> Guard:
    """A guard that deletes a directory."""
    return Guard(f"rm -rf -- {shlex.quote(str(path))}")


def wait_for(condition: Callable[[], bool], what: str, timeout_s: float = 60.0) -> None:
    """Polls for a condition that only a broker's answers can show. Raises TimeoutError."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"gave up waiting for {what}")
        threading.Event().wait(0.02)


def wait_for_broker(bootstrap: str, *, timeout_s: float = 120.0, alive=lambda: True, brokers: int = 1) -> None:
    """Returns once the broker answers ApiVersions and Metadata has at least `brokers` live brokers.

    Raises TimeoutError, or RuntimeError if ``alive`` returns false.
    """
    host, port = bootstrap.rsplit(":", 1)
    deadline = time.monotonic() + timeout_s
    while _brokers_known(host, int(port)) < brokers:
        if not alive():
            raise RuntimeError(f"the broker at {bootstrap} ended before it was ready")
        if time.monotonic() > deadline:
            raise TimeoutError(f"no broker answered at {bootstrap} within {timeout_s} s")
        threading.Event().wait(0.1)


def _brokers_known(host: str, port: int) -> int:
    """The number of brokers in Metadata 1 (no topics); none unless ApiVersions 0 gets an answer, too."""
    try:
        with socket.create_connection((host, port), timeout=2) as connection:
            connection.settimeout(5)
            call(connection, struct.pack(">hhih", 18, 0, 1, -1))
            answer = call(connection, struct.pack(">hhihi", 3, 1, 2, -1, 0))
    except OSError:
        return 0
    return struct.unpack_from(">i", answer, 4)[0] if len(answer) >= 8 else 0


def call(connection: socket.socket, payload: bytes) -> bytes:
    """Sends one frame and receives one. Raises OSError."""
    connection.sendall(struct.pack(">i", len(payload)) + payload)
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    return _exactly(connection, size)


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        chunk = connection.recv(count - len(data))
        if not chunk:
            raise ConnectionResetError("closed")
        data += chunk
    return data
