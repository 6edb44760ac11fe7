"""A lock on a file that the operating system releases when the process ends, in one form for each system."""

import errno
import os
import sys
from pathlib import Path
from typing import Final

from odradek.facilities import has

_FLAGS: Final = os.O_RDWR | os.O_CREAT
_OWNER_BYTES: Final = 32

if sys.platform == "win32":
    import msvcrt

    # A locked byte cannot be read by others, so it is one far beyond the content.
    _LOCKED_BYTE: Final = 1 << 30

    def _lock(fd: int) -> None:
        os.lseek(fd, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            if error.errno not in {errno.EACCES, errno.EDEADLK}:
                raise
            raise BlockingIOError(errno.EAGAIN, "another process holds the lock") from error

elif has("fcntl"):
    import fcntl

    def _lock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

else:

    def _lock(fd: int) -> None:
        try:
            os.lockf(fd, os.F_TLOCK, 0)
        except PermissionError as error:  # either error may mean that another process has it
            raise BlockingIOError(errno.EAGAIN, "another process holds the lock") from error


_held: Final[dict[tuple[int, int], int]] = {}
"""The descriptors of the files that this process has locked, by device and number of the file. `lockf` does not exclude
the process that has the lock, and ends the lock when that process closes any descriptor of the file. So a file that is
here is not opened again.
"""


class FileLock:
    """The lock on the file at `path`, which is created if there is none. Raises BlockingIOError if this or another
    process has it, OSError.
    """

    def __init__(self, path: Path) -> None:
        self._fd = -1
        if _identity(path) in _held:
            raise BlockingIOError(errno.EAGAIN, "this process holds the lock")
        fd = os.open(path, _FLAGS, 0o644)
        try:
            _lock(fd)
            found = os.fstat(fd)
        except BaseException:
            os.close(fd)
            raise
        self._file = (found.st_dev, found.st_ino)
        self._fd = _held[self._file] = fd

    def write(self, content: bytes) -> None:
        """Replace the file's content. Raises OSError."""
        os.ftruncate(self._fd, 0)
        os.lseek(self._fd, 0, os.SEEK_SET)
        os.write(self._fd, content)

    def release(self) -> None:
        """Release the lock. Idempotent."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            _held.pop(self._file, None)
            os.close(fd)


def content_of(path: Path) -> bytes:
    """Return the beginning of what was written to a locked file. Raises OSError."""
    held = _held.get(_identity(path))
    fd = os.open(path, os.O_RDONLY) if held is None else held
    try:
        os.lseek(fd, 0, os.SEEK_SET)
        return os.read(fd, _OWNER_BYTES)
    finally:
        if held is None:
            os.close(fd)


def _identity(path: Path) -> tuple[int, int]:
    try:
        found = os.stat(path)  # noqa: PTH116
    except FileNotFoundError:
        return -1, -1
    return found.st_dev, found.st_ino
