"""Noticing that another program changed a file that is open here: one `stat` before each use of its pages.

LMDB reads a mapping of the file. Where the file has been cut short since, that ends the process (SIGBUS). What lies
between the `stat` and the use cannot be seen: a file cut short in those microseconds still ends the process.
"""

import os
from pathlib import Path

from odradek.storage_backends.interface import StoreCorruptError
from odradek.storage_backends.lmdb_segments.advice import what_to_do
from odradek.storage_backends.lmdb_segments.inspection import check_file


class Footprint:
    """What a segment's file looked like after our own last write. One writer; `check` may be called from any thread.

    `_writes` is odd while a write is under way: the time of the last change says nothing then.
    """

    __slots__ = ("_changed_ns", "_damage", "_inode", "_path", "_size_bytes", "_writes")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writes = 0
        self._damage = ""
        try:
            found = os.stat(path)  # noqa: PTH116 - hot, here and below
        except OSError:
            self._inode, self._size_bytes, self._changed_ns = -1, 0, 0  # the next check says so
        else:
            self._inode, self._size_bytes, self._changed_ns = found.st_ino, found.st_size, found.st_mtime_ns

    def begin_write(self) -> None:
        """The writer is about to change the file."""
        self._writes += 1

    def end_write(self) -> None:
        """The writer has changed the file, or tried to."""
        try:
            found = os.stat(self._path)  # noqa: PTH116
            self._size_bytes, self._changed_ns = max(self._size_bytes, found.st_size), found.st_mtime_ns
        except OSError:
            pass  # the next check says so
        finally:
            self._writes += 1

    def check(self) -> None:
        """Raise StoreCorruptError when the file is not what we left, and OSError when it cannot be looked at."""
        if self._damage:
            raise StoreCorruptError(self._damage)
        writes, size_bytes = self._writes, self._size_bytes  # before the look: the writer may be at work
        try:
            found = os.stat(self._path)  # noqa: PTH116
        except FileNotFoundError:
            raise self._changed("was removed") from None
        if found.st_ino != self._inode:
            raise self._changed("was replaced by another file")
        if found.st_size < size_bytes:
            raise self._changed(f"was cut short (it has {found.st_size} bytes, and had {size_bytes})")
        if found.st_mtime_ns != self._changed_ns and not writes & 1 and writes == self._writes:
            self._look_again(writes, found.st_mtime_ns)

    def _changed(self, how: str) -> StoreCorruptError:
        return StoreCorruptError(f"{self._path} {how} while the broker used it; {what_to_do(self._path)}")

    def _look_again(self, writes: int, changed_ns: int) -> None:
        """See whether a file that somebody else has written to, or only touched, can still be read."""
        try:
            check_file(self._path)
        except StoreCorruptError as error:
            if writes == self._writes:  # else it was looked at while our writer changed it
                self._damage = str(error)
                raise
        else:
            if writes == self._writes:
                self._changed_ns = changed_ns
