"""A wrapper that injects seeded faults into any store: calls that fail, calls that are slow, and crashes.

All faults are drawn from one `random.Random`, so they are reproducible from its seed. A fault never interrupts a call
halfway: the error is raised before the wrapped call, so nothing is stored, or with `write_late` after it, so everything
is. In both cases a log whose commit or truncation failed must be closed and reopened, as the interface requires.

There are two kinds of crash. Over a `MemoryMedium` with `power_cuts` it is a power cut: synced commits survive, and a
prefix of the unsynced ones of each log. Over any other store it is a process crash: everything committed survives. In
both, a commit that was waiting in `delay` at the crash raises, and is stored or not, at random.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from odradek.partitions.model import AbortedTransaction, LogSnapshot, LogWrite, PartitionKey, ProducersAt, StoredBatch
from odradek.storage_backends.interface import (
    NO_ROWS,
    LogPolicy,
    PartitionStore,
    ReadLease,
    SegmentDraft,
    SegmentInfo,
    Store,
    StoreError,
    StoreFullError,
    StoreSpace,
    StrayLog,
)
from odradek.storage_backends.memory import MemoryStore
from odradek.storage_backends.outbox import Outbox

_T = TypeVar("_T")
Delay = Callable[[float], None]


class StoreCrashedError(StoreError):
    """The store has crashed and has to be reopened. An interrupted commit may or may not be stored."""


@dataclass(slots=True)
class FaultMix:
    """The probability of each fault per call (0 to 1), and the longest delay. May be changed during use."""

    write_full: float = 0.0
    write_error: float = 0.0
    write_late: float = 0.0
    read_error: float = 0.0
    slow: float = 0.0
    max_delay_seconds: float = 0.0


def _no_delay(seconds: float) -> None:
    del seconds


class FaultPlan:
    """Draws the faults. There is one per store, which is kept when the store crashes and is reopened. `delay` is called
    with the seconds to wait; it may wait in virtual time (as the simulation does), and may crash the store.

    `failed_calls` is the number of calls that have raised an injected error.
    """

    def __init__(self, random: Random, mix: FaultMix | None = None, delay: Delay = _no_delay) -> None:
        self.mix = mix or FaultMix()
        self.failed_calls: int = 0
        self._random = random
        self._delay = delay

    def happens(self, chance: float) -> bool:
        """True with probability `chance`. A chance of 0 draws no random number, so the seed's sequence is unchanged."""
        return chance > 0 and self._random.random() < chance

    def _fails(self, chance: float) -> bool:
        fails = self.happens(chance)
        self.failed_calls += fails
        return fails

    def before_write(self, what: str) -> None:
        """Raise StoreFullError or StoreError at random."""
        if self._fails(self.mix.write_full):
            raise StoreFullError(f"{what}: no space left (injected fault)")
        if self._fails(self.mix.write_error):
            raise StoreError(f"{what}: I/O error (injected fault)")

    def after_write(self, what: str) -> None:
        """Raise StoreError at random, after the write was done."""
        if self._fails(self.mix.write_late):
            raise StoreError(f"{what}: I/O error after the write (injected fault)")

    def before_read(self, what: str) -> None:
        """Wait or raise StoreError, each at random."""
        self.maybe_wait()
        if self._fails(self.mix.read_error):
            raise StoreError(f"{what}: I/O error (injected fault)")

    def maybe_wait(self) -> None:
        """Wait at random."""
        if self.happens(self.mix.slow):
            self._delay(self._random.uniform(0.0, self.mix.max_delay_seconds))

    def is_slow_first(self) -> bool:
        """Draw whether a slow commit is done after its delay (True) or before it; always False if no commit is slow."""
        return self.mix.slow > 0 and self._random.random() < 0.5

    def survivors(self, unsynced: int) -> int:
        """Draw how many of a log's unsynced commits survive a power cut."""
        return self._random.randint(0, unsynced)


class FaultyPartition:
    """A `PartitionStore` around another."""

    def __init__(self, inner: PartitionStore, store: "FaultyStore") -> None:
        self._inner = inner
        self._store = store
        self._plan = store.plan
        self._failed = False

    @property
    def failed(self) -> bool:
        """See `PartitionStore.failed`."""
        return self._failed or self._inner.failed

    @property
    def unsynced_commit_bytes(self) -> int:
        """See `PartitionStore.unsynced_commit_bytes`."""
        return self._inner.unsynced_commit_bytes

    @property
    def key(self) -> PartitionKey:
        """See `PartitionStore.key`."""
        return self._inner.key

    def load(self) -> LogSnapshot:
        """See `PartitionStore.load`."""
        return self._read(self._inner.load)

    def commit(self, writes: Sequence[LogWrite], *, sync: bool) -> None:
        """See `PartitionStore.commit`. Raises StoreCrashedError when the crash comes during its delay."""
        self._commit(lambda: self._inner.commit(writes, sync=sync))

    def commit_at_once(self, writes: Sequence[LogWrite]) -> bool:
        """See `PartitionStore.commit_at_once`: returns False if calls may be slow."""
        self._check_usable()
        if self._plan.mix.slow:
            return False
        return self._commit(lambda: self._inner.commit_at_once(writes))

    def read(self, start_offset: int, end_offset: int, max_bytes: int) -> ReadLease:
        """See `PartitionStore.read`."""
        return self._read(lambda: self._inner.read(start_offset, end_offset, max_bytes))

    def is_hot(self, start_offset: int) -> bool:
        """See `PartitionStore.is_hot`."""
        return self._inner.is_hot(start_offset)

    def find_by_timestamp(self, timestamp_ms: int) -> int | None:
        """See `PartitionStore.find_by_timestamp`."""
        return self._read(lambda: self._inner.find_by_timestamp(timestamp_ms))

    def find_max_timestamp(self) -> int | None:
        """See `PartitionStore.find_max_timestamp`."""
        return self._read(self._inner.find_max_timestamp)

    def producers_before(self, end_offset: int) -> ProducersAt:
        """See `PartitionStore.producers_before`."""
        return self._read(lambda: self._inner.producers_before(end_offset))

    def truncate(self, end_offset: int, rebuilt: Mapping[int, bytes] = NO_ROWS) -> LogSnapshot:
        """See `PartitionStore.truncate`."""
        return self._commit(lambda: self._inner.truncate(end_offset, rebuilt))

    def draft(self, base_offset: int, end_offset: int) -> "FaultyDraft":
        """See `PartitionStore.draft`."""
        return FaultyDraft(self._write(lambda: self._inner.draft(base_offset, end_offset)), self._write)

    def replace(self, draft: SegmentDraft) -> bool:
        """See `PartitionStore.replace`."""
        assert isinstance(draft, FaultyDraft), "a draft of another store"
        return self._write(lambda: self._inner.replace(draft.inner))

    def configure(self, policy: LogPolicy) -> None:
        """See `PartitionStore.configure`."""
        self._inner.configure(policy)

    def segments(self) -> Sequence[SegmentInfo]:
        """See `PartitionStore.segments`."""
        self._check_usable()
        return self._inner.segments()

    def size_bytes(self) -> int:
        """See `PartitionStore.size_bytes`."""
        self._check_usable()
        return self._inner.size_bytes()

    def close(self) -> None:
        """See `PartitionStore.close`."""
        if not self._store.has_crashed:
            self._inner.close()

    def _check_usable(self) -> None:
        self._store.check_alive()
        if self._failed:
            raise StoreError(f"the log of {self.key} has to be closed and opened again (injected fault)")

    def _commit(self, call: Callable[[], _T]) -> _T:
        try:
            result = self._write(call)
            self._plan.after_write(f"writing {self.key}")
        except ValueError:  # raised before anything was written
            raise
        except Exception:
            self._failed = True
            raise
        return result

    def _write(self, call: Callable[[], _T]) -> _T:
        self._check_usable()
        self._plan.before_write(f"writing {self.key}")
        if self._plan.is_slow_first():
            self._plan.maybe_wait()
            self._store.check_alive()
            return call()
        result = call()
        self._plan.maybe_wait()
        self._store.check_alive()
        return result

    def _read(self, call: Callable[[], _T]) -> _T:
        self._check_usable()
        self._plan.before_read(f"reading {self.key}")
        self._store.check_alive()
        return call()


class FaultyDraft:
    """A `SegmentDraft` around another."""

    def __init__(self, inner: SegmentDraft, write: Callable[[Callable[[], None]], None]) -> None:
        self.inner = inner
        self._write = write

    def add(self, batches: Sequence[StoredBatch]) -> None:
        """See `SegmentDraft.add`."""
        self._write(lambda: self.inner.add(batches))

    def seal(self, aborted: Sequence[AbortedTransaction]) -> None:
        """See `SegmentDraft.seal`."""
        self._write(lambda: self.inner.seal(aborted))

    def discard(self) -> None:
        """See `SegmentDraft.discard`."""
        self.inner.discard()


class FaultyStore:
    """A `Store` around another. Make a new one, with the same plan, to open the inner store again after a crash."""

    def __init__(self, inner: Store, plan: FaultPlan) -> None:
        self._inner = inner
        self.plan = plan
        self.has_crashed = False

    def partitions(self) -> Sequence[PartitionKey]:
        """See `Store.partitions`."""
        self.check_alive()
        return self._inner.partitions()

    def holds(self, key: PartitionKey) -> bool:
        """See `Store.holds`."""
        self.check_alive()
        return self._inner.holds(key)

    def open(self, key: PartitionKey, policy: LogPolicy) -> FaultyPartition:
        """See `Store.open`."""
        self.check_alive()
        self.plan.before_read(f"opening {key}")
        return FaultyPartition(self._inner.open(key, policy), self)

    def delete(self, key: PartitionKey) -> None:
        """See `Store.delete`."""
        self.check_alive()
        self.plan.before_write(f"deleting {key}")
        self._inner.delete(key)

    def set_aside(self, key: PartitionKey) -> str:
        """See `Store.set_aside`."""
        self.check_alive()
        self.plan.before_write(f"setting aside {key}")
        return self._inner.set_aside(key)

    def strays(self) -> Sequence[StrayLog]:
        """See `Store.strays`."""
        self.check_alive()
        return self._inner.strays()

    def take_back(self, name: str) -> None:
        """See `Store.take_back`."""
        self.check_alive()
        self.plan.before_write(f"taking back {name}")
        self._inner.take_back(name)

    def delete_stray(self, name: str) -> None:
        """See `Store.delete_stray`."""
        self.check_alive()
        self.plan.before_write(f"deleting {name}")
        self._inner.delete_stray(name)

    def space(self) -> StoreSpace:
        """See `Store.space`."""
        self.check_alive()
        return self._inner.space()

    def properties(self) -> Mapping[str, str]:
        """See `Store.properties`."""
        return self._inner.properties()

    def set_properties(self, values: Mapping[str, str]) -> None:
        """See `Store.set_properties`."""
        self.check_alive()
        self.plan.before_write("writing properties")
        self._inner.set_properties(values)

    def outbox(self) -> Outbox | None:
        """See `Store.outbox`: its own calls have no faults; the logs' commits, which remove entries from it, have."""
        return self._inner.outbox()

    def close_idle(self) -> int:
        """See `Store.close_idle`."""
        return 0 if self.has_crashed else self._inner.close_idle()

    def close(self) -> None:
        """See `Store.close`."""
        if not self.has_crashed:
            self._inner.close()

    def crash(self, *, power_cut: bool) -> None:
        """Crash the store: later calls that read or write logs raise StoreCrashedError, and `close` does nothing. A
        wrapped memory store's medium may be reopened at once; a store of files has to be closed first.
        """
        self.has_crashed = True
        if isinstance(self._inner, MemoryStore):
            self._inner.abandon()
            if power_cut and self._inner.medium.power_cuts:
                self._inner.medium.cut_power(self.plan.survivors)

    def check_alive(self) -> None:
        """Raise StoreCrashedError after a crash."""
        if self.has_crashed:
            raise StoreCrashedError("the store has crashed (injected fault); open it anew")
