"""Snapshots of a broker's memory store, and the return to one.

Whatever a broker knows it can rebuild from its store, as after a restart. So a snapshot is a copy of the store at one
moment, and a reset is a restart of the broker on a copy of it: there is no second way in which state comes back. The
batches of records are shared between copies, which makes a copy cheap.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.gateway.testing.kit.wrapped import WrappedEnvironment
from odradek.storage_backends.memory import MemoryMedium, MemoryStore

if TYPE_CHECKING:
    from odradek.gateway.env.environment import Environment
    from odradek.storage_backends.interface import Store

MEMORY: Final = "memory://"


class Snapshot(NamedTuple):
    """A broker's state at one moment: its store, and by how much its clock was ahead. It does not change."""

    medium: MemoryMedium
    ahead_ms: int


class StoreKeeper:
    """Keeps the memory store of one broker between its runs.

    `next_medium` is what the next run starts with; without one it starts with an empty store.
    """

    def __init__(self) -> None:
        self.next_medium: MemoryMedium | None = None
        self._store: MemoryStore | None = None

    def around(self, environment: "Environment") -> "KeepingEnvironment":
        """The environment of a broker that starts."""
        return KeepingEnvironment(environment, self)

    def open(self) -> MemoryStore:
        """The store of a run."""
        medium, self.next_medium = self.next_medium or MemoryMedium(), None
        self._store = MemoryStore(medium)
        return self._store

    def snapshot(self, ahead_ms: int) -> Snapshot:
        """The state at this moment. From any thread. There has been a run."""
        assert self._store is not None
        return Snapshot(self._store.copied_medium(), ahead_ms)


class KeepingEnvironment(WrappedEnvironment):
    """An environment whose memory stores the keeper opens; others are opened as ever."""

    def __init__(self, inner: "Environment", keeper: StoreKeeper) -> None:
        super().__init__(inner)
        self._keeper = keeper

    def open_store(self, url: str) -> "Store":
        """See `Environment.open_store`."""
        return self._keeper.open() if url == MEMORY else super().open_store(url)
