"""A terminal in which a test types commands, as a reader does: an interactive bash on a pseudo-terminal."""

import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

CTRL_C = "\x03"
PROMPT = re.compile(r"<(\d+)> $")
"""What the shell prints when it waits for a command: the exit code of the one before."""


class Terminal:
    """`type` runs a command and returns what it printed; `start` leaves it running, and `interrupt` ends it."""

    def __init__(self, folder: Path, environment: Mapping[str, str], first: str) -> None:
        self._descriptor, theirs = pty.openpty()
        self.shell = subprocess.Popen(
            ["bash", "--norc", "--noediting", "-i"],
            cwd=folder,
            env={**environment, "PS1": "<$?> ", "PS2": "", "TERM": "dumb"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            preexec_fn=lambda: _own_terminal(theirs),  # noqa: PLW1509 - no thread of this test holds a lock
        )
        os.close(theirs)
        self._read_until(PROMPT, 60)
        for line in ("stty -echo rows 50 columns 120", first):  # without a size, psql starts a pager
            self.type(line, 60)

    def type(self, line: str, limit_s: float) -> str:
        """Run a command to its end. Fails unless it ends with 0 within the time limit."""
        os.write(self._descriptor, f"{line}\n".encode())
        printed = self._read_until(PROMPT, limit_s, line)
        code = PROMPT.search(printed)
        assert code is not None
        assert code[1] == "0", f"$ {line}\n{printed}"
        return printed[: code.start()]

    def start(self, line: str, ready: str, limit_s: float) -> str:
        """Start a command that runs on, and return what it prints until `ready`."""
        os.write(self._descriptor, f"{line}\n".encode())
        return self._read_until(re.compile(re.escape(ready)), limit_s, line)

    def interrupt(self, limit_s: float) -> None:
        """End the running command by Ctrl-C. Fails unless it ends with 0."""
        self.type(CTRL_C, limit_s)

    def close(self) -> None:
        """End the shell and what runs in it."""
        children = Path(f"/proc/{self.shell.pid}/task/{self.shell.pid}/children").read_text().split()
        for pid in [*map(int, children), self.shell.pid]:
            os.kill(pid, signal.SIGKILL)
        self.shell.wait()
        os.close(self._descriptor)

    def _read_until(self, wanted: re.Pattern[str], limit_s: float, line: str = "") -> str:
        printed, deadline = "", time.monotonic() + limit_s
        while wanted.search(printed) is None:
            left = deadline - time.monotonic()
            readable = select.select([self._descriptor], [], [], max(0, left))[0]
            assert readable, f"$ {line}\n{printed}\n(nothing more within {limit_s:g} s)"
            printed += os.read(self._descriptor, 65_536).decode(errors="replace").replace("\r\n", "\n")
        return printed


def _own_terminal(descriptor: int) -> None:
    """Make the pseudo-terminal the one that controls the shell, so that Ctrl-C reaches what runs in it."""
    import fcntl
    import termios

    os.setsid()
    fcntl.ioctl(descriptor, termios.TIOCSCTTY, 0)
