"""The logs and properties of a memory store. They exist longer than the store, as data on a disk does.

With `power_cuts` the medium also keeps, for each log, the data that a disk may have after a power cut: the state at the
last synced commit, and the unsynced commits after it in order. The fault wrapper and the simulation use that.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from odradek.partitions.model import PartitionKey
from odradek.storage_backends.memory.log import MemoryDraft, MemoryLog
from odradek.storage_backends.planning import Run
from odradek.wire.values import mutable

_Survivors = Callable[[int], int]


@mutable
class MediumLog:
    """A log's current state (`live`), and its state after a power cut (`durable` and a prefix of `unsynced`)."""

    live: MemoryLog = field(default_factory=MemoryLog)
    durable: MemoryLog | None = None
    unsynced: list[Sequence[Run]] = field(default_factory=list[Sequence[Run]])

    def apply(self, runs: Sequence[Run], *, sync: bool) -> None:
        """Apply one commit; with `sync` it and everything before it is durable."""
        self.live.apply(runs)
        if self.durable is None:
            return
        self.unsynced.append(runs)
        if sync:
            self.sync()

    def sync(self) -> None:
        """Make everything durable."""
        if self.durable is not None:
            for runs in self.unsynced:
                self.durable.apply(runs)
            self.unsynced.clear()

    def truncate(self, end_offset: int, rebuilt: Mapping[int, bytes]) -> None:
        """Truncate durably."""
        self.sync()
        self.live.truncate(end_offset, rebuilt)
        if self.durable is not None:
            self.durable.truncate(end_offset, rebuilt)

    def replace(self, draft: MemoryDraft) -> bool:
        """Replace segments durably."""
        self.sync()
        if not self.live.replace(draft):
            return False
        if self.durable is not None:
            self.durable.replace(draft)
        return True

    def copy(self) -> "MediumLog":
        """Return a log that can be changed without changing this one; the batches are shared."""
        durable = None if self.durable is None else self.durable.copy()
        return MediumLog(self.live.copy(), durable, list(self.unsynced))

    def cut_power(self, survivors: _Survivors) -> None:
        """Drop the unsynced commits except the first `survivors(number of unsynced commits)`."""
        assert self.durable is not None
        del self.unsynced[survivors(len(self.unsynced)) :]
        self.sync()
        self.live = self.durable.copy()


@mutable
class MemoryMedium:
    """All logs and properties. One store at a time may have it open."""

    power_cuts: bool = False
    logs: dict[PartitionKey, MediumLog] = field(default_factory=dict[PartitionKey, MediumLog])
    strays: dict[str, tuple[PartitionKey, MediumLog]] = field(default_factory=dict[str, tuple[PartitionKey, MediumLog]])
    properties: dict[str, str] = field(default_factory=dict[str, str])
    in_use: bool = False

    def log(self, key: PartitionKey) -> MediumLog:
        """Return the log of `key`, creating an empty one if there is none."""
        if key not in self.logs:
            self.logs[key] = MediumLog(durable=MemoryLog() if self.power_cuts else None)
        return self.logs[key]

    def copy(self) -> "MemoryMedium":
        """Return a medium that can be changed without changing this one, and is not in use; the batches are shared."""
        return MemoryMedium(
            self.power_cuts,
            {key: log.copy() for key, log in self.logs.items()},
            {name: (key, log.copy()) for name, (key, log) in self.strays.items()},
            dict(self.properties),
        )

    def cut_power(self, survivors: _Survivors) -> None:
        """Drop what a power cut loses; `survivors(n)` returns how many of a log's n unsynced commits are kept."""
        for key in sorted(self.logs):
            self.logs[key].cut_power(survivors)
