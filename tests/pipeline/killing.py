"""Commands as processes that are killed with all processes they started: the driver, its JVM and its workers."""

import contextlib
import os
import random
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path


def chance() -> random.Random:
    """Random moments; the seed is printed, and ODRADEK_SEED repeats them."""
    seed = int(os.environ.get("ODRADEK_SEED") or random.randrange(2**32))
    print(f"ODRADEK_SEED={seed}")
    return random.Random(seed)


def start(arguments: Sequence[str], errors: Path) -> "subprocess.Popen[str]":
    """Starts a process group, with its stderr in a file."""
    with errors.open("w") as out:
        return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=out, text=True, start_new_session=True)


def kill(process: "subprocess.Popen[str]") -> bool:
    """Sends SIGKILL to the whole group; returns False if the process had already ended by itself."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    return process.returncode == -signal.SIGKILL
