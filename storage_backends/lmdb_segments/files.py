"""The lock of a store's directory. All functions raise OSError."""

import os
import sys
from contextlib import suppress
from pathlib import Path

from odradek.facilities import has
from odradek.storage_backends.interface import StoreLockedError
from odradek.storage_backends.locks import FileLock, content_of

if sys.platform != "win32" and has("fcntl"):
    import fcntl

    def _lock_directory(path: Path) -> int:
        """Lock the directory itself, if its file system can; return a descriptor of it."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise
        except OSError:
            pass  # the file system cannot lock directories, such as NFS
        return fd

else:

    def _lock_directory(path: Path) -> int:
        """Do nothing: Windows cannot lock directories. It does not remove a file that is open either."""
        return -1


class DirectoryLock:
    """A lock on a directory that the operating system releases when the process ends. It is a lock on a file in the
    directory, which contains the process id, and one on the directory itself, which excludes a second process also if
    the file is removed.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._file = FileLock(path)
            try:
                self._directory_fd = _lock_directory(path.parent)
            except BaseException:
                self._file.release()
                raise
        except BlockingIOError:
            raise StoreLockedError(
                f"{path.parent} is in use by the process with id {_owner(path)}: stop it first, or use another "
                "directory"
            ) from None
        with suppress(OSError):  # the id is only for an error message, and a store has to open on a full disk
            self._file.write(f"{os.getpid()}\n".encode())

    def release(self) -> None:
        """Release the lock. Idempotent."""
        self._file.release()
        fd, self._directory_fd = self._directory_fd, -1
        if fd >= 0:
            os.close(fd)


def _owner(path: Path) -> str:
    try:
        return content_of(path).decode("ascii", "replace").strip() or "unknown"
    except OSError:
        return "unknown"
