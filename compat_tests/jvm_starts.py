"""JVMs start one group after another, in all test processes of this machine's user.

The start of a broker takes seconds of two processors. Two workers that start three brokers each, and a Spark session
beside them, have kept a quorum from forming within two minutes.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

LOCK: Final = Path(tempfile.gettempdir()) / f"odradek-jvm-starts-{os.getuid()}"
WAIT_S: Final = 60.0
"""How long a start waits for others. Then it goes on beside them, since its test has a time limit."""


@contextmanager
def alone(lock: Path = LOCK, wait_s: float = WAIT_S) -> Iterator[bool]:
    """Other processes and threads wait at this place until the end of the `with`; yields False if the wait was in vain.

    The lock ends with the process that has it. It must not be taken again within the `with`.
    """
    with lock.open("w") as file:
        yield _locked(file.fileno(), time.monotonic() + wait_s)


def _locked(file: int, deadline: float) -> bool:
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            threading.Event().wait(0.05)
        else:
            return True
