"""Detects that another program changed an open file: one check before each use of its pages.

LMDB reads a mapping of the file. If the file has been truncated since it was mapped, a read kills the process (SIGBUS).
A truncation in the microseconds between the check and the use is not detected, and still kills the process.

A file that is being written to is checked through a descriptor of its own, which takes half the time of a `stat` of its
path. Any write, truncation, removal or renaming changes the file's own metadata (change time, size and number of
links). A moved directory is only visible in a `stat` of the path; it is detected at most `NAME_EVERY` uses later.

Reading the change time makes the next sync slower on Linux (`inotify.py`). So after some writes the file is watched
there, and until another program opens or changes it, a check compares only its size. On Windows this time is that of
the file's creation, so checks compare sizes only; and a mapped file cannot be truncated.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from odradek.storage_backends.interface import StoreCorruptError
from odradek.storage_backends.lmdb_segments.advice import what_to_do
from odradek.storage_backends.lmdb_segments.inspection import check_file
from odradek.storage_backends.lmdb_segments.short_calls import file_size
from odradek.storage_backends.lmdb_segments.watches import Watch, Watches
from odradek.storage_backends.system import open_to_read

NAME_EVERY: Final = 64
"""Every `NAME_EVERY`-th check is of the path even if there is a descriptor."""
WATCHED_FROM: Final = 8
"""The write from which on a file is watched: most logs of a large store are written to rarely."""


class Footprint:
    """The metadata of a segment's file after our own last write. One writer; `check` may be called from any thread."""

    __slots__ = (
        "_changed_ns",
        "_checks",
        "_damage",
        "_fd",
        "_inode",
        "_path",
        "_watch",
        "_watches",
        "_writes",
        "size_bytes",
    )

    def __init__(self, path: Path, watches: Watches | None = None) -> None:
        self._path = path
        self._watches = watches
        self._watch: Watch | None = None
        self._fd: int | None = None
        self._writes = self._checks = 0
        self._damage = ""
        try:
            found = os.stat(path)  # noqa: PTH116 - hot, here and below
        except OSError:
            self._inode, self.size_bytes, self._changed_ns = -1, 0, 0  # the next check reports it
        else:
            self._inode, self.size_bytes, self._changed_ns = found.st_ino, found.st_size, found.st_ctime_ns

    def hold(self) -> None:
        """Check the file through a descriptor until `let_go`; by its path if no descriptor is available."""
        if self._fd is None:
            with suppress(OSError):
                self._fd = open_to_read(self._path)

    def let_go(self) -> None:
        """Close the descriptor. A concurrent check in another thread may then read another file's metadata, or fail; it
        falls back to the path.
        """
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.end()
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def begin_write(self) -> None:
        """Note that the writer is about to change the file."""
        self._writes += 1

    def end_write(self) -> int:
        """Note that the writer has changed the file, or tried to. Returns the size that the file has at least, in
        bytes.
        """
        fd, watch = self._fd, self._watch
        try:
            if fd is not None and watch is not None and watch.is_clear:
                size_bytes = file_size(fd)
            else:
                if fd is not None and watch is None and self._writes >= 2 * WATCHED_FROM:
                    self._begin_watch(fd)
                found = os.stat(self._path) if fd is None else os.fstat(fd)  # noqa: PTH116
                size_bytes, self._changed_ns = found.st_size, found.st_ctime_ns
            if size_bytes > self.size_bytes:  # noqa: PLR1730 - hot
                self.size_bytes = size_bytes
        except OSError:
            pass  # the next check reports it
        finally:
            self._writes += 1
        return self.size_bytes

    def _begin_watch(self, fd: int) -> None:
        if self._watches is not None:
            self._watch = self._watches.add(fd)
            if self._watch is None:
                self._watches = None  # not tried again

    def check(self) -> None:
        """Raise StoreCorruptError if another program has changed the file, and OSError if it cannot be checked."""
        writes, fd, watch = self._writes, self._fd, self._watch
        self._checks += 1
        if fd is None or self._damage or not self._checks % NAME_EVERY:
            self._check_name()
            return
        try:
            if watch is not None and watch.look() and file_size(fd) >= self.size_bytes:
                return
            found = os.fstat(fd)
        except OSError:
            self._check_name()
            return
        is_same = found.st_ino == self._inode and found.st_size >= self.size_bytes and found.st_nlink == 1
        if not is_same or (found.st_ctime_ns != self._changed_ns and not writes & 1 and writes == self._writes):
            self._check_name()

    def _check_name(self) -> None:
        if self._damage:
            raise StoreCorruptError(self._damage)
        writes, size_bytes = self._writes, self.size_bytes  # before the `stat`: the writer may be at work
        try:
            found = os.stat(self._path)  # noqa: PTH116
        except FileNotFoundError:
            raise self._changed("was removed") from None
        if found.st_ino != self._inode:
            raise self._changed("was replaced by another file")
        if found.st_size < size_bytes:
            raise self._changed(f"was cut short (it has {found.st_size} bytes, and had {size_bytes})")
        if self._watch is not None and self._watch.look():
            return  # our own writes since it is watched have changed the time
        if found.st_ctime_ns != self._changed_ns and not writes & 1 and writes == self._writes:
            self._look_again(writes, found.st_ctime_ns)

    def _changed(self, how: str) -> StoreCorruptError:
        return StoreCorruptError(f"{self._path} {how} while the broker used it; {what_to_do(self._path)}")

    def _look_again(self, writes: int, changed_ns: int) -> None:
        """Check whether a file that another process has modified, or only touched, is still readable."""
        try:
            check_file(self._path)
        except StoreCorruptError as error:
            if writes == self._writes:  # else our writer changed it during the check
                self._damage = str(error)
                raise
        else:
            if writes == self._writes:
                self._changed_ns = changed_ns
