"""Watches of files: whether another program has opened or changed one, as the operating system reports it.

Linux reports it (`inotify`). Elsewhere there are no watches, and a file is checked by its size and its time of change
instead (`footprint`).
"""

import sys
from typing import Protocol

from odradek.facilities import has


class Watch(Protocol):
    """The watch of one file. `is_clear` is True until an event was seen, and False from then on."""

    is_clear: bool

    def look(self) -> bool:
        """Look for events; True if there was none."""
        ...

    def end(self) -> None:
        """Stop watching."""
        ...


class Watches(Protocol):
    """All watches of a store. Thread-safe."""

    def add(self, fd: int) -> Watch | None:
        """Watch the file of an open descriptor. None if it cannot be watched."""
        ...

    def close(self) -> None:
        """End all watches."""
        ...


class NoWatches:
    """`Watches` of a system that reports nothing about files."""

    def add(self, fd: int) -> Watch | None:
        """Return None."""
        return None

    def close(self) -> None:
        """Do nothing."""


if sys.platform == "linux" and has("inotify") and has("libc"):
    from odradek.storage_backends.lmdb_segments.inotify import FileWatches

    def file_watches() -> Watches:
        """Return the watches of a store that is being opened."""
        return FileWatches()

else:

    def file_watches() -> Watches:
        """Return the watches of a store that is being opened."""
        return NoWatches()
