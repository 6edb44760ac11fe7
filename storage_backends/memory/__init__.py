"""Logs in memory: for tests, for `odradek serve --storage memory://`, and as the simulation's disk."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from threading import Lock

from odradek.partitions.model import LogSnapshot, LogWrite, PartitionKey, ProducersAt
from odradek.storage_backends.interface import (
    ANY_COMMIT_BYTES,
    NO_ROWS,
    LogPolicy,
    Rest,
    SegmentDraft,
    SegmentInfo,
    StoreError,
    StoreLockedError,
    StoreSpace,
    StrayLog,
)
from odradek.storage_backends.memory.log import MemoryDraft, own_batches
from odradek.storage_backends.memory.medium import MediumLog, MemoryMedium
from odradek.storage_backends.options import StoreOptions
from odradek.storage_backends.planning import checked_run

__all__ = ["MemoryMedium", "MemoryPartition", "MemoryStore", "open_memory_store"]


def open_memory_store(path: str, options: StoreOptions) -> "MemoryStore":
    """Open a new, empty store."""
    del path, options
    return MemoryStore(MemoryMedium())


class MemoryLease:
    """Batches as ordinary objects; `release` only drops the references."""

    __slots__ = ("chunks", "rest", "size_bytes")

    def __init__(self, chunks: Sequence[memoryview], rest: Rest) -> None:
        self.chunks = chunks
        self.rest = rest
        self.size_bytes = sum([len(chunk) for chunk in chunks])

    def release(self) -> None:
        """See `ReadLease.release`."""
        self.chunks = ()


class MemoryPartition:
    """A `PartitionStore` over one log of a medium. `lock` is for all calls, since all are fast."""

    def __init__(self, store: "MemoryStore", key: PartitionKey, log: MediumLog, policy: LogPolicy) -> None:
        self._store = store
        self._key = key
        self._log = log
        self._policy = policy
        self.lock = Lock()
        self._closed = False

    @property
    def key(self) -> PartitionKey:
        """See `PartitionStore.key`."""
        return self._key

    @property
    def failed(self) -> bool:
        """See `PartitionStore.failed`: always False."""
        return False

    @property
    def unsynced_commit_bytes(self) -> int:
        """See `PartitionStore.unsynced_commit_bytes`."""
        return ANY_COMMIT_BYTES

    def load(self) -> LogSnapshot:
        """See `PartitionStore.load`."""
        with self.lock:
            return self._open_log().live.snapshot()

    def commit(self, writes: Sequence[LogWrite], *, sync: bool) -> None:
        """See `PartitionStore.commit`."""
        owned = [own_batches(write) for write in writes]
        with self.lock:
            log = self._open_log()
            log.apply(log.live.plan(owned, self._policy), sync=sync)

    def commit_at_once(self, writes: Sequence[LogWrite]) -> bool:
        """See `PartitionStore.commit_at_once`: always possible."""
        self.commit(writes, sync=False)
        return True

    def read(self, start_offset: int, end_offset: int, max_bytes: int) -> MemoryLease:
        """See `PartitionStore.read`."""
        with self.lock:
            return MemoryLease(*self._open_log().live.read(start_offset, end_offset, max_bytes))

    def is_hot(self, start_offset: int) -> bool:
        """See `PartitionStore.is_hot`: always True."""
        del start_offset
        return True

    def find_by_timestamp(self, timestamp_ms: int) -> int | None:
        """See `PartitionStore.find_by_timestamp`."""
        with self.lock:
            return self._open_log().live.find_by_timestamp(timestamp_ms)

    def find_max_timestamp(self) -> int | None:
        """See `PartitionStore.find_max_timestamp`."""
        with self.lock:
            return self._open_log().live.find_max_timestamp()

    def producers_before(self, end_offset: int) -> ProducersAt:
        """See `PartitionStore.producers_before`."""
        with self.lock:
            return self._open_log().live.producers_before(end_offset)

    def truncate(self, end_offset: int, rebuilt: Mapping[int, bytes] = NO_ROWS) -> LogSnapshot:
        """See `PartitionStore.truncate`."""
        with self.lock:
            log = self._open_log()
            log.truncate(end_offset, rebuilt)
            return log.live.snapshot()

    def draft(self, base_offset: int, end_offset: int) -> MemoryDraft:
        """See `PartitionStore.draft`."""
        with self.lock:
            infos = self._open_log().live.segment_infos()
        return MemoryDraft(base_offset, end_offset, checked_run(infos, base_offset, end_offset))

    def replace(self, draft: SegmentDraft) -> bool:
        """See `PartitionStore.replace`."""
        assert isinstance(draft, MemoryDraft), "a draft of another store"
        with self.lock:
            return self._open_log().replace(draft)

    def configure(self, policy: LogPolicy) -> None:
        """See `PartitionStore.configure`."""
        self._policy = policy

    def segments(self) -> Sequence[SegmentInfo]:
        """See `PartitionStore.segments`."""
        with self.lock:
            return self._open_log().live.segment_infos()

    def size_bytes(self) -> int:
        """See `PartitionStore.size_bytes`."""
        return sum(segment.size_bytes for segment in self.segments())

    def close(self) -> None:
        """See `PartitionStore.close`."""
        with self.lock:
            if not self._closed:
                self._closed = True
                self._log.sync()
                self._store.forget(self._key)

    def abandon(self) -> None:
        """Close without a last sync, as if the process were killed."""
        self._closed = True

    def _open_log(self) -> MediumLog:
        if self._closed:
            raise StoreError(f"the log of {self._key} is closed")
        return self._log


class MemoryStore:
    """A `Store` over a medium, which keeps the logs when the store is closed."""

    def __init__(self, medium: MemoryMedium) -> None:
        if medium.in_use:
            raise StoreLockedError("another store has this memory medium open; close it first")
        medium.in_use = True
        self.medium = medium
        self._open: dict[PartitionKey, MemoryPartition] = {}
        self._lock = Lock()
        self._closed = False

    def partitions(self) -> Sequence[PartitionKey]:
        """See `Store.partitions`."""
        with self._lock:
            return sorted(self.medium.logs)

    def holds(self, key: PartitionKey) -> bool:
        """See `Store.holds`."""
        return key in self.medium.logs

    def open(self, key: PartitionKey, policy: LogPolicy) -> MemoryPartition:
        """See `Store.open`."""
        with self._lock:
            self._check_open()
            if key in self._open:
                raise StoreError(f"the log of {key} is open already")
            partition = MemoryPartition(self, key, self.medium.log(key), policy)
            self._open[key] = partition
            return partition

    def delete(self, key: PartitionKey) -> None:
        """See `Store.delete`."""
        with self._lock:
            self._check_open()
            if key in self._open:
                raise StoreError(f"the log of {key} is open; close it before deleting it")
            self.medium.logs.pop(key, None)

    def set_aside(self, key: PartitionKey) -> str:
        """See `Store.set_aside`."""
        with self._lock:
            self._check_open()
            if key in self._open or key not in self.medium.logs:
                raise StoreError(f"the log of {key} is open, or there is none")
            name = f"{key}.{key.topic_id}-{len(self.medium.strays)}"
            while name in self.medium.strays:
                name += "+"
            self.medium.strays[name] = key, self.medium.logs.pop(key)
            return name

    def strays(self) -> Sequence[StrayLog]:
        """See `Store.strays`."""
        with self._lock:
            found = [StrayLog(name, key) for name, (key, _) in self.medium.strays.items()]
        return sorted(found, key=lambda each: each.key)

    def take_back(self, name: str) -> None:
        """See `Store.take_back`."""
        with self._lock:
            self._check_open()
            if name not in self.medium.strays or self.medium.strays[name][0] in self.medium.logs:
                raise StoreError(f"there is no stray log {name}, or its partition has a log")
            key, log = self.medium.strays.pop(name)
            self.medium.logs[key] = log

    def delete_stray(self, name: str) -> None:
        """See `Store.delete_stray`."""
        with self._lock:
            self._check_open()
            self.medium.strays.pop(name, None)

    def space(self) -> StoreSpace:
        """See `Store.space`: the sizes are unknown."""
        return StoreSpace("memory://")

    def copied_medium(self) -> MemoryMedium:
        """A copy of the medium at one moment, which no commit divides. From any thread, also once it is closed."""
        with ExitStack() as held:
            held.enter_context(self._lock)
            for partition in list(self._open.values()):
                held.enter_context(partition.lock)
            return self.medium.copy()

    def properties(self) -> Mapping[str, str]:
        """See `Store.properties`."""
        return dict(self.medium.properties)

    def set_properties(self, values: Mapping[str, str]) -> None:
        """See `Store.set_properties`."""
        self._check_open()
        self.medium.properties.update(values)

    def outbox(self) -> None:
        """See `Store.outbox`: none."""

    def close_idle(self) -> int:
        """See `Store.close_idle`: nothing to close."""
        return 0

    def close(self) -> None:
        """See `Store.close`."""
        for partition in list(self._open.values()):
            partition.close()
        if not self._closed:
            self._closed = True
            self.medium.in_use = False

    def abandon(self) -> None:
        """Close without syncing anything, as if the process were killed; the medium is not changed."""
        self._closed = True
        self.medium.in_use = False
        for partition in self._open.values():
            partition.abandon()
        self._open.clear()

    def forget(self, key: PartitionKey) -> None:
        """Remove a partition from the open ones, after it was closed."""
        self._open.pop(key, None)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the store is closed")
