"""File system operations that are made durable in a given order. All raise OSError."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from odradek.storage_backends.interface import StoreLockedError

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Return the id of this boot of the operating system, empty if there is none."""
    return _BOOT_ID.read_text(encoding="utf-8").strip() if _BOOT_ID.exists() else ""


class DirectoryLock:
    """A lock on a directory that the operating system releases when the process ends. It is a flock on a file in the
    directory, which contains the process id, and one on the directory itself, which excludes a second process also if
    the file is removed.
    """

    def __init__(self, path: Path) -> None:
        self._fds = [os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)]
        try:
            self._fds.append(os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            self._lock()
        except BlockingIOError:
            owner = os.pread(self._fds[0], 32, 0).decode("ascii", "replace").strip() or "unknown"
            self.release()
            raise StoreLockedError(
                f"{path.parent} is in use by the process with id {owner}: stop it first, or use another directory"
            ) from None
        except BaseException:
            self.release()
            raise
        with suppress(OSError):  # the id is only for an error message, and a store has to open on a full disk
            os.ftruncate(self._fds[0], 0)
            os.pwrite(self._fds[0], f"{os.getpid()}\n".encode(), 0)

    def _lock(self) -> None:
        fcntl.flock(self._fds[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            fcntl.flock(self._fds[1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:
            return  # the file system cannot lock directories, such as NFS

    def release(self) -> None:
        """Release the lock."""
        for fd in self._fds:
            os.close(fd)
        self._fds.clear()
