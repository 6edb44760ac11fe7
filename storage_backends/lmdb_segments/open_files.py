"""Limits the open environments of a store: closes those not used for long, and the least recently used above a limit.

Each takes file descriptors, memory (some 20 KB), four memory maps and at least 4 MB of address space, so thousands of
partitions cannot all have theirs open. A closed environment is reopened at its next use, which takes less than a
millisecond and is transparent to callers.
"""

import errno
from collections.abc import Callable
from threading import Lock
from typing import Final, Protocol, TypeVar

import lmdb

from odradek.storage_backends.lmdb_segments.watches import file_watches
from odradek.storage_backends.system import descriptor_limit

T = TypeVar("T")

MAX_FILES: Final = 30_000
"""The default limit of open files: Linux allows a process 65,530 memory maps (vm.max_map_count)."""
_SHARE: Final = 4
_ROOM_FILES: Final = 48  # the descriptors that `with_room` tries to free
_LOOKS: Final = 256  # the items that one `trim` checks at most, so that it takes little time
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


class Closable(Protocol):
    """An open resource."""

    is_used: bool

    def close_if_idle(self) -> bool:
        """Close it unless it is in use; return whether it is closed."""
        ...


def allowed_files(wanted: int | None) -> int:
    """Return how many descriptors environments may take: `wanted`, but at most a quarter of the process's limit."""
    limit = descriptor_limit()
    share = MAX_FILES if limit is None else limit // _SHARE
    return min(share, MAX_FILES if wanted is None else wanted)


def is_exhausted(error: BaseException) -> bool:
    """True if the error means that the process has reached its limit of descriptors or address space."""
    code = error.errno if isinstance(error, OSError) else getattr(error, "code", None)
    return code in _EXHAUSTED or isinstance(error, (MemoryError, lmdb.MemoryError))


class OpenFiles:
    """Closes the least recently used items above `max_files` descriptors, except those in use. Thread-safe. Items are
    in the order of opening; one that was used since its last check is moved to the end when it is checked. `watches`
    detects changes of their files by other programs.
    """

    def __init__(self, max_files: int) -> None:
        self.watches = file_watches()
        self._max_files = max_files
        self._lock = Lock()
        self._open: dict[Closable, int] = {}
        self._files = 0

    @property
    def files(self) -> int:
        """The number of descriptors in use."""
        return self._files

    def opened(self, item: Closable, files: int) -> None:
        """Add `item`, which is open and uses `files` descriptors."""
        with self._lock:
            self._files += files - self._open.pop(item, 0)
            self._open[item] = files
        self.trim()

    def trim(self) -> None:
        """Close items above the limit that are not in use; cheap if none are. Some may be left to later calls."""
        excess = self._files - self._max_files
        if excess > 0:
            self._close_some(excess, _LOOKS)

    def forget(self, item: Closable) -> None:
        """Remove `item`: it is closed, or its owner will close it."""
        with self._lock:
            self._files -= self._open.pop(item, 0)

    def with_room(self, call: Callable[[], T]) -> T:
        """Run `call`; if it fails for lack of descriptors or address space, close some items and run it once more."""
        try:
            return call()
        except (OSError, lmdb.Error, MemoryError) as error:
            if not is_exhausted(error) or not self._close_some(_ROOM_FILES, 2 * len(self._open)):
                raise
        return call()

    def close_idle(self) -> int:
        """Close all items not used since the last call, and return their number."""
        closed = 0
        with self._lock:
            items = list(self._open)
        for item in items:
            if item.is_used:
                item.is_used = False
            else:
                closed += self._close(item)
        return closed

    def _close_some(self, files: int, looks: int) -> bool:
        """Close the least recently used items until `files` descriptors are freed; return whether any was closed. At
        most `looks` items are checked; one that was used is closed at its second check at the earliest.
        """
        before = self._files
        for _ in range(looks):
            if before - self._files >= files:
                break
            with self._lock:
                item = next(iter(self._open), None)
            if item is None:
                break
            if item.is_used:
                item.is_used = False
                self._move_to_end(item)
            else:
                self._close(item)
        return self._files < before

    def _move_to_end(self, item: Closable) -> None:
        with self._lock:
            files = self._open.pop(item, None)
            if files is not None:
                self._open[item] = files

    def _close(self, item: Closable) -> bool:
        # Not under our lock: an item holds its own lock while it opens, and then takes ours.
        with self._lock:
            files = self._open.pop(item, None)
            if files is None:
                return False
            self._files -= files
        if item.close_if_idle():
            return True
        with self._lock:
            if item not in self._open:
                self._open[item] = files
                self._files += files
        return False
