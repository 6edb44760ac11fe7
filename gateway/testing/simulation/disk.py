"""A simulated disk: a memory store that forgets what was not synced when the power fails, and fails by chance.

The medium outlives the processes that open it. A process that crashed keeps a handle that is of no use any more, so
nothing that still unwinds in it can reach the medium.
"""

import random
from dataclasses import dataclass

from storage_backends.faulty import FaultMix, FaultPlan, FaultyStore
from storage_backends.interface import Store
from storage_backends.memory import MemoryMedium, MemoryStore


@dataclass(slots=True)
class DiskPace:
    """How long blocking calls take: a time in `busy_ms`, or with the probability `stall` one up to `stall_ms`."""

    busy_ms: tuple[float, float] = (0.1, 2.0)
    stall: float = 0.0
    stall_ms: float = 2000.0


class Disk:
    """The disk of one host. `pace` and `errors` may be changed while it runs."""

    def __init__(self, chance: random.Random) -> None:
        self.pace = DiskPace()
        self.errors = FaultMix()
        self._chance = chance
        self._medium = MemoryMedium(power_cuts=True)
        self._inner: MemoryStore | None = None
        self._store: FaultyStore | None = None

    def open(self) -> Store:
        """Open the store for a new process. Raises StoreLockedError while another has it open."""
        self._inner = MemoryStore(self._medium)
        self._store = FaultyStore(self._inner, FaultPlan(self._chance, self.errors))
        return self._store

    def busy_s(self) -> tuple[float, float]:
        """How long a call keeps the disk busy before and after it takes effect."""
        pace = self.pace
        busy_ms = self._chance.uniform(*pace.busy_ms)
        if pace.stall and self._chance.random() < pace.stall:
            busy_ms = self._chance.uniform(0, pace.stall_ms)
        before_ms = self._chance.uniform(0, busy_ms)
        return before_ms / 1000, (busy_ms - before_ms) / 1000

    def crash(self, *, power_cut: bool) -> None:
        """Take the store from its process; with a power cut also lose unsynced commits, each log's newest ones."""
        store, inner = self._store, self._inner
        if store is None or inner is None:
            return
        if power_cut:
            store.crash()
        else:
            store.has_crashed = True
            inner.abandon()
        self._store = self._inner = None
