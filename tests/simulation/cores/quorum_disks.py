"""The log in memory and the disk of a simulated node."""

from dataclasses import dataclass, field

from quorum_invariants import Invariant, Violation

from odradek.coordinator.quorum.values import ElectionState, EpochEnd, SnapshotId
from odradek.coordinator.quorum.voters import VoterHistory, VotersAt, VoterSet

Entry = tuple[int, int | VoterSet]
"""The epoch of a record and its value, or the voter set that it holds; a leader's first record has the value 0."""


class Content:
    """The records of a snapshot: those of an earlier one, `before`, and `tail`. Immutable."""

    __slots__ = ("before", "end", "is_committed", "tail")

    def __init__(self, before: "Content | None", tail: list[Entry]) -> None:
        self.before = before
        self.tail = tail
        self.end = len(tail) + (0 if before is None else len(before))
        self.is_committed = False

    def __len__(self) -> int:
        return self.end

    def records(self) -> list[Entry]:
        """All records, in one list from then on; the caller must not change it."""
        links = self._links()
        if len(links) > 1:
            self.tail = [entry for each in links for entry in each.tail]
            self.before = None
        return self.tail

    def _links(self) -> "list[Content]":
        links, each = [], self
        while each is not None:
            links.append(each)
            each = each.before
        return links[::-1]

    def part(self, position: int, count: int) -> list[Entry]:
        return self.records()[position : position + count]

    def is_begin_of(self, committed: list[Entry]) -> bool:
        """True if `committed` begins with it. Since `committed` only grows, each record is compared once."""
        unseen, each = [], self
        while each is not None and not each.is_committed:
            unseen.append(each)
            each = each.before
        for each in reversed(unseen):
            if committed[each.end - len(each.tail) : each.end] != each.tail:
                return False
            each.is_committed = True
        return True


@dataclass
class Disk:
    """The state that survives a crash. The log begins at `start`: below it, a restart has only the snapshots."""

    election: ElectionState = field(default_factory=ElectionState)
    records: list[Entry] = field(default_factory=list)
    start: int = 0
    snapshots: dict[SnapshotId, Content] = field(default_factory=dict)

    @property
    def base(self) -> SnapshotId | None:
        if self.start:
            for each in self.snapshots:
                if each.end_offset == self.start:
                    return each
        return None

    @property
    def newest_snapshot(self) -> SnapshotId | None:
        return max(self.snapshots, default=None)

    def recovered(self) -> list[Entry]:
        """The log of a process that starts: the base snapshot and the records behind it."""
        if not self.start:
            return list(self.records)
        if self.base is None:
            raise Violation(
                Invariant.TRIMMED, f"the log begins at {self.start}, and the snapshots are {self.snapshots}"
            )
        return self.snapshots[self.base].records() + self.records[self.start :]


class Log:
    """A node's log in memory, with its writes to the disk; the state machine's `QuorumLog`."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.entries = list(disk.records)
        self.durable_end_offset = len(self.entries)
        self.syncing = self.failed = False
        self.cuts = 0
        self.compared = 0
        self._taken: Content | None = None
        self._sets = VoterHistory()
        self._seen = 0

    @property
    def voters(self) -> VotersAt | None:
        if self._seen < len(self.entries):
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
        """The end of what others may fetch."""
        return self.durable_end_offset

    def begin_sync(self) -> int:
        """Returns the mark: records appended from now on belong to the next sync."""
        self.syncing = True
        return len(self.entries)

    def end_sync(self, mark: int) -> None:
        self.syncing = False
        self.disk.records += self.entries[len(self.disk.records) : mark]
        self.durable_end_offset = mark

    def fail_sync(self, mark: int, *, is_kept: bool) -> None:
        """The sync has failed: the log refuses records until it is opened again, and its disk may have these."""
        self.syncing, self.failed = False, True
        if is_kept:
            self.disk.records += self.entries[len(self.disk.records) : mark]

    def open_again(self) -> None:
        """The failed log has what is on the disk, and is durable."""
        self.failed = False
        end_offset = len(self.disk.records)
        self._forget_from(end_offset)
        self.durable_end_offset = end_offset

    def cut(self, offset: int) -> None:
        self._forget_from(offset)
        del self.disk.records[offset:]
        self.durable_end_offset = min(self.durable_end_offset, offset)

    def _forget_from(self, offset: int) -> None:
        self.cuts += 1
        self.syncing = False
        del self.entries[offset:]
        self._sets.cut(offset)
        self._seen = min(self._seen, offset)
        self._changed_from(offset)

    def restart(self, snapshot: SnapshotId) -> None:
        """Restarts the log behind a snapshot."""
        self.cuts += 1
        self.syncing = self.failed = False
        self.entries = list(self.disk.snapshots[snapshot].records())
        self._sets.begin(None)
        self._seen = 0
        self.disk.records = list(self.entries)
        self.disk.start = self.durable_end_offset = snapshot.end_offset
        self._changed_from(0)

    def _changed_from(self, offset: int) -> None:
        self.compared = min(self.compared, offset)
        if self._taken is not None and offset < len(self._taken):
            self._taken = None

    def content(self, end_offset: int) -> Content:
        """The content of a snapshot below `end_offset`. It shares the last snapshot's records, which never change."""
        before, start = self._taken, 0
        if before is not None and len(before) <= end_offset:
            start = len(before)
        else:
            before = None
        self._taken = Content(before, self.entries[start:end_offset])
        return self._taken
