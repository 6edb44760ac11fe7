"""Damage that another program or a disk may do to a file, and checks of a broker's log afterwards."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

Damage = Callable[[Path], None]

PAGE = 4096

WATCHED = ("--set", "odradek.loop.stall.warn.ms=300")
"""For a broker whose log is passed to `check_log`.

The limit is above the default: the first request of an API imports modules on the event loop, which may take 100 ms and
is unrelated to damage.
"""


def empty(path: Path) -> None:
    os.truncate(path, 0)


def one_page(path: Path) -> None:
    os.truncate(path, PAGE)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2 // PAGE * PAGE)


def zero(path: Path) -> None:
    overwrite(path, 0, bytes(path.stat().st_size))


def zero_first_pages(path: Path) -> None:
    overwrite(path, 0, bytes(2 * PAGE))


def zero_middle(path: Path) -> None:
    """Zeroes half of the file, from its first quarter on but not its meta pages."""
    quarter = path.stat().st_size // 4
    start = max(quarter, 2 * PAGE)
    overwrite(path, start, bytes(max(3 * quarter - start, PAGE)))


def garble(path: Path) -> None:
    overwrite(path, 0, Random(1).randbytes(path.stat().st_size))


def remove(path: Path) -> None:
    path.unlink()


def remove_directory(path: Path) -> None:
    shutil.rmtree(path.parent)


def overwrite(path: Path, at: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(content)


DAMAGES: tuple[Damage, ...] = (empty, one_page, cut, zero, zero_first_pages, zero_middle, garble, remove)


def follow_advice(log: str, directory: Path, target: Path) -> None:
    """Moves the partition's directory that the log names out of the data directory, as the log advises."""
    advice = re.search(rf"move the directory ({re.escape(str(directory))}) out of the data directory", log)
    assert advice, directory
    shutil.move(advice[1], target)


def check_log(log: str) -> None:
    """Asserts that the log has no crash, no internal error and no long turn of the event loop."""
    for unwanted in ("Traceback", "Fatal Python error", "the event loop was held up"):
        assert unwanted not in log, log[log.index(unwanted) - 500 :][:5000]
