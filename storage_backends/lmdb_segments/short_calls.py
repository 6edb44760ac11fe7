"""System calls that do not block, without releasing the interpreter's lock.

`os` and `fcntl` release the lock for each call. If another thread waits for the lock, it is woken, usually finds the
lock taken again, and waits again: with several committing threads a commit that makes three such calls costs three
needless switches of threads. These calls only read memory of the kernel and return within a microsecond, so the lock
is kept. On systems other than Linux the calls of `os` are used.
"""

import ctypes
import os
import sys
from typing import Final

from odradek.facilities import has

if sys.platform == "linux" and has("libc"):
    _LIBC: Final = ctypes.PyDLL(None, use_errno=True)
    _lseek: Final = getattr(_LIBC, "lseek64", _LIBC.lseek)  # without the name, `lseek` takes 64 bits
    _lseek.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int)
    _lseek.restype = ctypes.c_int64

    def file_size(fd: int) -> int:
        """Return the size in bytes of an open file, and move its position there. Raises OSError."""
        size_bytes: int = _lseek(fd, 0, os.SEEK_END)
        if size_bytes < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return size_bytes

else:

    def file_size(fd: int) -> int:
        """Return the size in bytes of an open file, and move its position there. Raises OSError."""
        return os.lseek(fd, 0, os.SEEK_END)
