"""Calls of the operating system that stores need and that differ between systems; each has one form, chosen at import.

A form for one system is chosen by its name, which type checkers follow, and by the presence of what it needs, which
`odradek.facilities` can hide. All functions raise OSError.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from odradek.facilities import has

_ZEROS: Final = bytes(1 << 16)

# Names. Windows needs a flag that makes a new name durable, and several attempts: virus scanners and indexers open
# files for a moment, and a file that is open cannot be renamed.

if sys.platform == "win32":
    import ctypes
    from threading import Event

    _kernel: Final = ctypes.WinDLL("kernel32", use_last_error=True)
    _move: Final = _kernel.MoveFileExW
    _move.argtypes = (ctypes.c_wchar_p, ctypes.c_wchar_p, ctypes.c_uint32)
    _move.restype = ctypes.c_int
    _MOVE_FLAGS: Final = 0x1 | 0x8  # replace an existing file; return when the new name is on the disk
    _IN_USE: Final = frozenset({5, 32, 33, 1224})  # access denied, sharing and lock violations, a mapped file
    _ATTEMPTS: Final = 40
    _PAUSE_S: Final = 0.025

    def replace(path: Path, target: Path) -> None:
        """Rename a file or directory. A file at `target` is replaced."""
        _patiently(lambda: _replace(path, target))

    def remove(path: Path) -> None:
        """Remove a file."""
        _patiently(lambda: os.unlink(path))  # noqa: PTH108

    def _replace(path: Path, target: Path) -> None:
        if not _move(str(path), str(target), _MOVE_FLAGS):
            error = ctypes.WinError(ctypes.get_last_error())
            error.filename, error.filename2 = str(path), str(target)
            raise error

    def _patiently(call: Callable[[], None]) -> None:
        for _ in range(_ATTEMPTS):
            try:
                return call()
            except OSError as error:
                if error.winerror not in _IN_USE:
                    raise
            Event().wait(_PAUSE_S)
        return call()

else:

    def replace(path: Path, target: Path) -> None:
        """Rename a file or directory. A file at `target` is replaced."""
        os.replace(path, target)  # noqa: PTH105

    def remove(path: Path) -> None:
        """Remove a file."""
        os.unlink(path)  # noqa: PTH108


# Syncs. On macOS fsync(2) leaves the data in the disk's own cache. On Windows a directory cannot be opened; `replace`
# has made its names durable, and NTFS writes the names of new and removed files in order.

if sys.platform == "darwin" and has("fullfsync"):
    import fcntl

    def sync_file(fd: int) -> None:
        """Make the content of an open file durable."""
        try:
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
        except OSError:  # a file system without it, such as one of the network
            os.fsync(fd)

else:

    def sync_file(fd: int) -> None:
        """Make the content of an open file durable."""
        os.fsync(fd)


if sys.platform == "win32":

    def sync_directory(path: Path) -> None:
        """Make the names in a directory durable."""
        os.stat(path)  # noqa: PTH116 - raises where there is none, as elsewhere

else:

    def sync_directory(path: Path) -> None:
        """Make the names in a directory durable."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            sync_file(fd)
        finally:
            os.close(fd)


# Reading at a position.

if sys.platform == "win32":
    import ctypes
    import msvcrt
    from ctypes import wintypes

    _create: Final = _kernel.CreateFileW
    _create.argtypes = (
        wintypes.LPCWSTR,
        wintypes.DWORD,
        wintypes.DWORD,
        wintypes.LPVOID,
        wintypes.DWORD,
        wintypes.DWORD,
        wintypes.HANDLE,
    )
    _create.restype = wintypes.HANDLE
    _GENERIC_READ: Final = 0x80000000
    _SHARE_ALL: Final = 0x1 | 0x2 | 0x4  # reading, writing, and removing or renaming
    _OPEN_EXISTING: Final = 3
    _INVALID: Final = ctypes.c_void_p(-1).value

    def open_to_read(path: Path) -> int:
        """Open a file for reading, without hindering others who rename or remove it; return its descriptor."""
        handle = _create(str(path), _GENERIC_READ, _SHARE_ALL, None, _OPEN_EXISTING, 0, None)
        if handle is None or handle == _INVALID:
            error = ctypes.WinError(ctypes.get_last_error())
            error.filename = str(path)
            raise error
        return msvcrt.open_osfhandle(handle, os.O_RDONLY | os.O_BINARY)

else:
    _READ: Final = os.O_RDONLY | os.O_NONBLOCK  # else opening a named pipe blocks

    def open_to_read(path: Path) -> int:
        """Open a file for reading, without hindering others who rename or remove it; return its descriptor."""
        return os.open(path, _READ)


if sys.platform != "win32" and has("pread"):
    read_at = os.pread
else:
    from threading import Lock

    _position_lock: Final = Lock()

    def read_at(fd: int, size_bytes: int, position: int, /) -> bytes:
        """Read `size_bytes` from a position of an open file, fewer at its end. Moves the file's own position."""
        parts: list[bytes] = []
        with _position_lock:
            os.lseek(fd, position, os.SEEK_SET)
            while size_bytes > 0 and (part := os.read(fd, size_bytes)):
                parts.append(part)
                size_bytes -= len(part)
        return b"".join(parts)


# Space on the disk.

if sys.platform == "linux" and has("posix_fallocate"):
    allocate = os.posix_fallocate
else:

    def allocate(fd: int, position: int, size_bytes: int, /) -> None:
        """Allocate blocks for a part of an open file, which has no content from `position` on, by writing zeros."""
        os.lseek(fd, position, os.SEEK_SET)
        while size_bytes > 0:
            size_bytes -= os.write(fd, _ZEROS[:size_bytes])


if sys.platform == "win32":
    _allocated: Final = _kernel.GetCompressedFileSizeW  # of sparse files, too
    _allocated.argtypes = (ctypes.c_wchar_p, ctypes.POINTER(ctypes.c_uint32))
    _allocated.restype = ctypes.c_uint32

    def disk_bytes(path: Path) -> int:
        """Return the space that a file takes on the disk."""
        high = ctypes.c_uint32()
        ctypes.set_last_error(0)
        low = int(_allocated(str(path), ctypes.byref(high)))
        if low == 0xFFFFFFFF and ctypes.get_last_error():
            raise ctypes.WinError(ctypes.get_last_error())
        return high.value << 32 | low

elif has("st_blocks"):

    def disk_bytes(path: Path) -> int:
        """Return the space that a file takes on the disk."""
        return os.stat(path).st_blocks * 512  # noqa: PTH116

else:

    def disk_bytes(path: Path) -> int:
        """Return the size of a file, which is the most that it takes on the disk."""
        return os.stat(path).st_size  # noqa: PTH116


# Descriptors.

if sys.platform == "win32":

    def descriptor_limit() -> int | None:
        """Return how many descriptors the process may have, None without a limit."""
        return 8192  # of the C library

elif has("resource"):
    import resource

    def descriptor_limit() -> int | None:
        """Return how many descriptors the process may have, None without a limit."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return None if soft == resource.RLIM_INFINITY else soft

else:

    def descriptor_limit() -> int | None:
        """Return how many descriptors the process may have, None without a limit."""
        limit = os.sysconf("SC_OPEN_MAX")
        return limit if limit >= 0 else None


# The boot. Its id tells whether what was written without a sync can be lost since.

if sys.platform == "linux" and has("boot_id"):

    def boot_id() -> str:
        """Return the id of this boot of the operating system, empty if there is none."""
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()

elif sys.platform == "darwin" and has("libc"):
    import ctypes

    def boot_id() -> str:
        """Return the id of this boot of the operating system, empty if there is none."""
        answer = ctypes.create_string_buffer(64)
        size_bytes = ctypes.c_size_t(len(answer))
        failed = ctypes.CDLL(None).sysctlbyname(b"kern.bootsessionuuid", answer, ctypes.byref(size_bytes), None, 0)
        return "" if failed else answer.value.decode("ascii", "replace")

else:

    def boot_id() -> str:
        """Return the id of this boot of the operating system, empty if there is none."""
        return ""
