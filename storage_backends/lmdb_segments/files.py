"""File system operations that are made durable in a given order. All raise OSError."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from odradek.storage_backends.interface import StoreLockedError

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_durably(path: Path, content: bytes) -> None:
    """Replace a file's content as a whole, durably: after a crash it is the old or the new one."""
    draft = path.with_name(path.name + ".new")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    sync_directory(path.parent)


def boot_id() -> str:
    """Return what tells one run of the operating system from the next, empty where there is no such thing."""
    return _BOOT_ID.read_text(encoding="utf-8").strip() if _BOOT_ID.exists() else ""


class DirectoryLock:
    """A lock on a directory that goes with the process, however it ends.

    It is a flock on a file in it, which holds the process id, and one on the directory itself: should the file be
    removed while the process runs, a second process is kept away all the same.
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
        with suppress(OSError):  # the id serves a message only, and on a full disk the store must open
            os.ftruncate(self._fds[0], 0)
            os.pwrite(self._fds[0], f"{os.getpid()}\n".encode(), 0)

    def _lock(self) -> None:
        fcntl.flock(self._fds[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            fcntl.flock(self._fds[1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:
            return  # a file system that locks no directories, such as NFS

    def release(self) -> None:
        """Let another process have the directory."""
        for fd in self._fds:
            os.close(fd)
        self._fds.clear()
