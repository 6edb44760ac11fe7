"""What a simulated node keeps: its log in memory, and the disk under it."""

from dataclasses import dataclass, field

from quorum_invariants import Invariant, Violation

from odradek.coordinator.quorum.values import ElectionState, EpochEnd, SnapshotId
from odradek.coordinator.quorum.voters import VoterHistory, VotersAt, VoterSet

Entry = tuple[int, int | VoterSet]
"""The epoch of a record and its value, or the set of voters that it names; a leader's first record has the value 0."""


@dataclass
class Disk:
    """What survives a crash. The log begins at `start`: of `records` below, a restart knows what a snapshot has."""

    election: ElectionState = field(default_factory=ElectionState)
    records: list[Entry] = field(default_factory=list)
    start: int = 0
    snapshots: dict[SnapshotId, tuple[Entry, ...]] = field(default_factory=dict)

    @property
    def base(self) -> SnapshotId | None:
        return next((each for each in self.snapshots if each.end_offset == self.start), None) if self.start else None

    @property
    def newest_snapshot(self) -> SnapshotId | None:
        return max(self.snapshots, default=None)

    def recovered(self) -> list[Entry]:
        """What a process finds that starts: the base, and the log behind it."""
        if not self.start:
            return list(self.records)
        if self.base is None:
            raise Violation(
                Invariant.TRIMMED, f"the log begins at {self.start}, and the snapshots are {self.snapshots}"
            )
        return [*self.snapshots[self.base], *self.records[self.start :]]


class Log:
    """A node's log in memory, and its way to the disk; the machine's `QuorumLog`."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.entries = list(disk.records)
        self.durable_end_offset = len(self.entries)
        self.syncing = False
        self.cuts = 0
        self._sets = VoterHistory()
        self._seen = 0

    @property
    def voters(self) -> VotersAt | None:
        for offset in range(self._seen, len(self.entries)):
            value = self.entries[offset][1]
            if isinstance(value, VoterSet):
                self._sets.append(VotersAt(offset, value))
        self._seen = len(self.entries)
        return self._sets.latest

    @property
    def end_offset(self) -> int:
        return len(self.entries)

    @property
    def last_epoch(self) -> int:
        return self.entries[-1][0] if self.entries else 0

    @property
    def base(self) -> SnapshotId | None:
        return self.disk.base

    @property
    def newest_snapshot(self) -> SnapshotId | None:
        return self.disk.newest_snapshot

    def epoch_end(self, epoch: int) -> EpochEnd:
        at, start, base = len(self.entries), self.disk.start, self.base
        while at > start and self.entries[at - 1][0] > epoch:
            at -= 1
        if at > start:
            return EpochEnd(self.entries[at - 1][0], at)
        return EpochEnd(epoch if base is None else min(epoch, base.epoch), at)

    @property
    def readable_end_offset(self) -> int:
        """What others may fetch."""
        return self.durable_end_offset

    def begin_sync(self) -> int:
        """The mark: what is appended from now on is of the next sync."""
        self.syncing = True
        return len(self.entries)

    def end_sync(self, mark: int) -> None:
        self.syncing = False
        self.disk.records = self.entries[:mark]
        self.durable_end_offset = mark

    def cut(self, offset: int) -> None:
        self.cuts += 1
        self.syncing = False
        del self.entries[offset:]
        self._sets.cut(offset)
        self._seen = min(self._seen, offset)
        self.disk.records = self.disk.records[:offset]
        self.durable_end_offset = min(self.durable_end_offset, offset)

    def restart(self, snapshot: SnapshotId) -> None:
        """Begin anew behind a snapshot."""
        self.cuts += 1
        self.syncing = False
        self.entries = list(self.disk.snapshots[snapshot])
        self._sets.begin(None)
        self._seen = 0
        self.disk.records = list(self.entries)
        self.disk.start = self.durable_end_offset = snapshot.end_offset
