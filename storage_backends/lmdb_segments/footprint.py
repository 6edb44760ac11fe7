"""Detects that another program changed an open file: a look at it before each use of its pages.

LMDB reads a mapping of the file. If the file has been truncated since it was mapped, a read kills the process (SIGBUS).
A truncation in the microseconds between the look and the use is not detected, and still kills the process.

Each look reads the inode and the size of the file at the path. A sealed file's change time must be the same, too. A
file that is written to has a descriptor, and LMDB's two meta pages must be those after our own last commit; its change
time is read with every `TIME_EVERY`-th look only, since reading it makes the next commit take longer (`file_status`).
"""

import mmap
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from odradek.storage_backends.interface import StoreCorruptError
from odradek.storage_backends.lmdb_segments.advice import what_to_do
from odradek.storage_backends.lmdb_segments.file_status import status
from odradek.storage_backends.lmdb_segments.inspection import check_file

TIME_EVERY: Final = 64
"""Every `TIME_EVERY`-th check is of the change time even if the file is written to."""
_HEAD_BYTES: Final = mmap.PAGESIZE + 192
"""The first meta page and the part of the second that is in use."""


class Footprint:
    """The metadata of a segment's file after our own last write. One writer; `check` may be called from any thread."""

    __slots__ = (
        "_changed_ns",
        "_checks",
        "_damage",
        "_fd",
        "_head",
        "_inode",
        "_name",
        "_path",
        "_writes",
        "size_bytes",
    )

    def __init__(self, path: Path) -> None:
        self._path = path
        self._name = os.fsencode(path)
        self._fd: int | None = None
        self._head = b""
        self._writes = self._checks = 0
        self._damage = ""
        self._changed_ns: int | None = None
        """The change time, or None if it has not been read since our own last write."""
        try:
            found = os.stat(path)  # noqa: PTH116 - hot, here and below
        except OSError:
            self._inode, self.size_bytes, self._changed_ns = -1, 0, 0  # the next check reports it
        else:
            self._inode, self.size_bytes, self._changed_ns = found.st_ino, found.st_size, found.st_ctime_ns

    def hold(self) -> None:
        """Check the meta pages through a descriptor until `let_go`; the change time if no descriptor is available."""
        if self._fd is not None:
            return
        with suppress(OSError):
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                self._head = os.pread(fd, _HEAD_BYTES, 0)
            except OSError:
                os.close(fd)
                raise
            self._fd = fd

    def let_go(self) -> None:
        """Close the descriptor. A concurrent check in another thread may then read another file's pages, or fail; it
        falls back to the change time.
        """
        fd, self._fd = self._fd, None
        if fd is not None:
            if self._changed_ns is None:
                with suppress(OSError):  # the next check looks at the content
                    self._changed_ns = os.fstat(fd).st_ctime_ns
            os.close(fd)

    def begin_write(self) -> None:
        """Note that the writer is about to change the file."""
        self._writes += 1

    def end_write(self) -> int:
        """Note that the writer has changed the file, or tried to. Returns the size that the file has at least, in
        bytes.
        """
        fd = self._fd
        try:
            if fd is None:
                found = os.stat(self._path)  # noqa: PTH116
                size_bytes, self._changed_ns = found.st_size, found.st_ctime_ns
            else:
                self._changed_ns = None
                size_bytes, self._head = status(self._name).size_bytes, os.pread(fd, _HEAD_BYTES, 0)
            if size_bytes > self.size_bytes:  # noqa: PLR1730 - hot
                self.size_bytes = size_bytes
        except OSError:
            pass  # the next check reports it
        finally:
            self._writes += 1
        return self.size_bytes

    def check(self) -> None:
        """Raise StoreCorruptError if another program has changed the file, and OSError if it cannot be checked."""
        writes, fd = self._writes, self._fd
        self._checks += 1
        if fd is None or self._damage or not self._checks % TIME_EVERY:
            self._check_time()
            return
        try:
            found, head = status(self._name), os.pread(fd, _HEAD_BYTES, 0)
        except OSError:
            self._check_time()
            return
        if found.inode != self._inode or found.size_bytes < self.size_bytes:
            self._check_time()
        elif head != self._head and self._is_unwritten_since(writes):
            self._look_again(writes, head=head)

    def _is_unwritten_since(self, writes: int) -> bool:
        """True if our own writer was not at work when `writes` was read, and has not begun since."""
        return not writes & 1 and writes == self._writes

    def _check_time(self) -> None:
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
        if found.st_ctime_ns == self._changed_ns or not self._is_unwritten_since(writes):
            return
        if self._changed_ns is None and self._fd is not None:
            self._changed_ns = found.st_ctime_ns  # the first look since our own last write
        else:
            self._look_again(writes, changed_ns=found.st_ctime_ns)

    def _changed(self, how: str) -> StoreCorruptError:
        return StoreCorruptError(f"{self._path} {how} while the broker used it; {what_to_do(self._path)}")

    def _look_again(self, writes: int, *, changed_ns: int | None = None, head: bytes | None = None) -> None:
        """Check whether a file that another process has modified, or only touched, is still readable."""
        try:
            check_file(self._path)
        except StoreCorruptError as error:
            if self._is_unwritten_since(writes):  # else our writer changed it during the check
                self._damage = str(error)
                raise
        else:
            if self._is_unwritten_since(writes):
                self._changed_ns = changed_ns or self._changed_ns
                self._head = head or self._head
