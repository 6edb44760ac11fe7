"""A simulated disk: a memory store that loses unsynced data in a power cut, and whose calls fail at random.

The medium outlives the processes that open it. The handle of a process that has crashed is invalid, so tasks of that
process that are still unwinding cannot change the medium.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from odradek.partitions.model import PartitionKey
from odradek.storage_backends.faulty import FaultMix, FaultPlan, FaultyStore
from odradek.storage_backends.interface import Store
from odradek.storage_backends.memory import MemoryMedium, MemoryStore
from odradek.storage_backends.memory.medium import MediumLog

DiskLog = MediumLog
"""A log as it is stored on a disk."""


@dataclass(slots=True)
class DiskPace:
    """The duration of blocking calls: in the range `busy_ms`, or with the probability `stall` up to `stall_ms`."""

    busy_ms: tuple[float, float] = (0.1, 2.0)
    stall: float = 0.0
    stall_ms: float = 2000.0


class Medium(Protocol):
    """Keeps a disk's data between processes."""

    def open(self) -> Store:
        """Open the store on this medium. Raises StoreError."""
        ...


class VolatileMedium:
    """Memory that loses unsynced data in a power cut."""

    def __init__(self) -> None:
        self.memory = MemoryMedium(power_cuts=True)

    def open(self) -> Store:
        """See `Medium.open`."""
        return MemoryStore(self.memory)


class Disk:
    """The disk of one host. `pace` and `errors` may be changed while the simulation runs.

    On a medium other than memory, a power cut loses no more than the end of the process does.
    """

    def __init__(self, chance: random.Random, medium: Medium | None = None) -> None:
        self.pace = DiskPace()
        self.errors = FaultMix()
        self._chance = chance
        self._medium = medium or VolatileMedium()
        self._inner: Store | None = None
        self._store: FaultyStore | None = None

    @property
    def is_bad(self) -> bool:
        """True if calls may fail at present."""
        errors = self.errors
        return any((errors.write_full, errors.write_error, errors.write_late, errors.read_error))

    def repair(self) -> None:
        """Let no further call fail."""
        errors = self.errors
        errors.write_full = errors.write_error = errors.write_late = errors.read_error = 0.0

    @property
    def failed_calls(self) -> int:
        """The number of calls of the newest process that have failed."""
        return 0 if self._store is None else self._store.plan.failed_calls

    def open(self) -> Store:
        """Open the store for a new process. Raises StoreLockedError while another has it open."""
        if self._store is not None and self._store.has_crashed:
            self.close()
        self._inner = self._medium.open()
        self._store = FaultyStore(self._inner, FaultPlan(self._chance, self.errors))
        return self._store

    def busy_s(self) -> tuple[float, float]:
        """The time for which a call occupies the disk before and after it takes effect."""
        pace = self.pace
        busy_ms = self._chance.uniform(*pace.busy_ms)
        if pace.stall and self._chance.random() < pace.stall:
            busy_ms = self._chance.uniform(0, pace.stall_ms)
        before_ms = self._chance.uniform(0, busy_ms)
        return before_ms / 1000, (busy_ms - before_ms) / 1000

    def crash(self, *, power_cut: bool) -> None:
        """Make the process's store unusable; a power cut also loses some of each log's newest unsynced commits.

        The process may still release its read leases; the underlying store is closed at the next `open`.
        """
        if self._store is None:
            return
        self._store.crash(power_cut=power_cut)

    @property
    def logs(self) -> Mapping[PartitionKey, MediumLog]:
        """The logs on the disk, for checks of invariants. The medium must be memory."""
        return self._volatile.logs

    @property
    def _volatile(self) -> MemoryMedium:
        assert isinstance(self._medium, VolatileMedium), "this disk is not of memory"
        return self._medium.memory

    def lose(self, keeps_log: Callable[[PartitionKey], bool], keeps_property: Callable[[str], bool]) -> None:
        """Delete all logs and properties except those that are kept, and all stray logs; no process may run."""
        medium = self._volatile
        for key in [key for key in medium.logs if not keeps_log(key)]:
            del medium.logs[key]
        medium.strays.clear()
        for name in [name for name in medium.properties if not keeps_property(name)]:
            del medium.properties[name]

    def close(self) -> None:
        """Close the store that a process which has ended left open. Idempotent."""
        if self._inner is not None:
            self._inner.close()
        self._store = self._inner = None
