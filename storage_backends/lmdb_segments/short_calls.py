"""System calls that do not block, without releasing the interpreter's lock.

`os` and `fcntl` release the lock for each call. If another thread waits for the lock, it is woken, usually finds the
lock taken again, and waits again: with several committing threads a commit that makes three such calls costs three
needless switches of threads. These calls only read memory of the kernel and return within a microsecond, so the lock
is kept.
"""

import ctypes
import os
import termios
from typing import Final

_LIBC: Final = ctypes.PyDLL(None, use_errno=True)
_lseek: Final = getattr(_LIBC, "lseek64", _LIBC.lseek)  # without the name, `lseek` takes 64 bits
_lseek.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int)
_lseek.restype = ctypes.c_int64
_ioctl: Final = _LIBC.ioctl
_ioctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p)


def file_size(fd: int) -> int:
    """Return the size in bytes of an open file, and move its position there. Raises OSError."""
    size_bytes: int = _lseek(fd, 0, os.SEEK_END)
    if size_bytes < 0:
        raise _error()
    return size_bytes


class Readable:
    """The number of bytes that a descriptor, such as inotify's, has to read. The memory of its answer is shared."""

    __slots__ = ("_answer", "_at")

    def __init__(self) -> None:
        self._answer = ctypes.c_int()
        self._at = ctypes.addressof(self._answer)

    def count(self, fd: int) -> int:
        """Return the number of bytes to read. If several threads ask, it may be the number of a moment after this
        call began. Raises OSError.
        """
        if _ioctl(fd, termios.FIONREAD, self._at) < 0:
            raise _error()
        return self._answer.value


def _error() -> OSError:
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code))
