"""LMDB's table of readers: the lock file beside an environment's file.

The store's lock excludes other writers, and other processes open sealed segments without this file. LMDB cannot run
without the table (`lock=False`), although only this process writes: without it the writer reuses pages that readers'
transactions still need.

On Linux the table is in memory (memfd), since a log has to open on a full disk; the lock file is a link to the memfd,
and is removed as soon as LMDB has opened it. So nothing beside a segment's own file depends on its name, and a segment
is renamed or removed while it is open, or while clients hold its pages.

Elsewhere the table is a file whose blocks are allocated beforehand: LMDB would leave holes in it, and writing to one of
those on a full disk kills the process (SIGBUS). It stays until the environment is closed, because Windows does not
remove files that are open. One that a killed process has left is used again: on macOS LMDB names its semaphores by it,
and removes those of the killed process only so. Windows does not rename files that are open either, so in this form a
segment is closed before it is renamed or removed, and readers get copies instead of pages (`segment`).
"""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from odradek.facilities import has
from odradek.storage_backends.lmdb_segments.layout import LOCK_SUFFIX
from odradek.storage_backends.system import allocate

_SLOT_BYTES: Final = 64

MOVES_OPEN_FILES: Final = sys.platform == "linux" and has("memfd") and has("proc")
"""True if a segment is renamed and removed while it is open."""

FILES_GROW: Final = sys.platform != "win32" and has("grown_files")
"""True if LMDB's files grow with their content. On Windows they have the size of the map, and are sparse."""


def lock_path(path: Path) -> Path:
    """Return the path of LMDB's lock file for the environment at `path`."""
    return path.with_name(path.name + LOCK_SUFFIX)


def remove_lock_file(path: Path) -> None:
    """Remove the lock file of the environment at `path`; if that fails, the next opening does it."""
    with suppress(OSError):
        lock_path(path).unlink()


def _table_bytes(max_readers: int) -> int:
    return (max_readers + 4) * _SLOT_BYTES


if sys.platform == "linux" and MOVES_OPEN_FILES:

    @contextmanager
    def reader_table(path: Path, max_readers: int) -> Generator[None]:
        """In the block, LMDB may open the environment at `path` with a table for `max_readers`. Raises OSError."""
        at = lock_path(path)
        at.unlink(missing_ok=True)  # left by a process that was killed
        fd = os.memfd_create("odradek-readers")
        try:
            os.posix_fallocate(fd, 0, _table_bytes(max_readers))
            at.symlink_to(f"/proc/self/fd/{fd}")
            yield
        finally:
            os.close(fd)
            remove_lock_file(path)

    def is_left_over(entry: Path) -> bool:
        """True for a lock file that has to be removed before a log is opened."""
        return True

else:

    @contextmanager
    def reader_table(path: Path, max_readers: int) -> Generator[None]:
        """In the block, LMDB may open the environment at `path` with a table for `max_readers`. Raises OSError."""
        at = lock_path(path)
        if at.is_symlink():
            at.unlink()  # left by a process with a table in memory
        fd = os.open(at, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            size_bytes, needed_bytes = os.fstat(fd).st_size, _table_bytes(max_readers)
            if size_bytes < needed_bytes:
                allocate(fd, size_bytes, needed_bytes - size_bytes)
        except BaseException:
            os.close(fd)
            remove_lock_file(path)
            raise
        os.close(fd)
        try:
            yield
        except BaseException:
            remove_lock_file(path)
            raise

    def is_left_over(entry: Path) -> bool:
        """True for a lock file that has to be removed before a log is opened: the segment's own is used again."""
        return entry.is_symlink() or not entry.with_name(entry.name.removesuffix(LOCK_SUFFIX)).exists()
