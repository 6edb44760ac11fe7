"""The metadata of a file without its times: `statx` on Linux, `stat` elsewhere.

Since Linux 6.13 a file whose change time has been read gets a new, precise one with its next write, and a sync then has
to write that as well: with ext4 a `stat` between two commits adds 45 µs to the second. Python has no `os.statx` before
3.15.
"""

import ctypes
import os
from collections.abc import Callable
from typing import Final, NamedTuple

_AT_FDCWD: Final = -100
_INODE_AND_SIZE: Final = 0x100 | 0x200
"""The mask of the fields to read: STATX_INO and STATX_SIZE."""


class FileStatus(NamedTuple):
    """What identifies a file, apart from its content and times."""

    inode: int
    size_bytes: int


class _Statx(ctypes.Structure):
    """The kernel's `struct statx`."""

    _fields_ = (
        ("before", ctypes.c_byte * 32),
        ("inode", ctypes.c_uint64),
        ("size_bytes", ctypes.c_uint64),
        ("after", ctypes.c_byte * 208),
    )


def _by_statx() -> Callable[[bytes], FileStatus] | None:
    """`status` by `statx`; None if the C library or the kernel does not have it."""
    statx = getattr(ctypes.CDLL(None, use_errno=True), "statx", None)
    if statx is None:
        return None
    statx.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.POINTER(_Statx))

    def read(path: bytes) -> FileStatus:
        found = _Statx()
        if statx(_AT_FDCWD, path, 0, _INODE_AND_SIZE, found):
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error), os.fsdecode(path))
        return FileStatus(found.inode, found.size_bytes)

    try:
        read(b"/")
    except OSError:  # a kernel before 4.11, or a sandbox that refuses the call
        return None
    return read


def by_stat(path: bytes) -> FileStatus:
    """`status` by `stat`."""
    found = os.stat(path)  # noqa: PTH116 - hot
    return FileStatus(found.st_ino, found.st_size)


status: Final[Callable[[bytes], FileStatus]] = _by_statx() or by_stat
"""The status of the file at a path. Raises OSError, such as FileNotFoundError."""
