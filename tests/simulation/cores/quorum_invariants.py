"""Named invariants of a quorum that hold after every step, whatever fails."""

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quorum_disks import Entry
    from quorum_node import Node

from odradek.coordinator.quorum.values import NO_NODE, ReplicaKey, SnapshotId, State


class Invariant(StrEnum):
    ONE_LEADER = "an epoch has one leader"
    LEADS_ONCE = "a node that has led an epoch and restarted does not lead it again"
    VOTES_ONCE = "a voter votes for one candidate in an epoch"
    COMPLETE = "a new leader has all that was committed in earlier epochs"
    MATCHING = "logs that agree in the epoch of a record agree up to it"
    PREFIX = "all nodes know the same committed records"
    FORWARD = "a high watermark never goes back"
    MAJORITY = "what is committed is on the disks of a majority"
    SYNCED = "a fetch acknowledges only what is on the disk"
    KEPT = "what was acknowledged is there for ever"
    PROGRESS = "a healed quorum elects a leader and commits"
    SNAPSHOT = "a snapshot is what was committed up to its end"
    TRIMMED = "a log is trimmed only behind a durable snapshot"
    RESIGNS = "a leader that no majority hears from resigns"
    OVERLAP = "a set of voters that is written has a voter in common with each majority of the committed one"


class Violation(Exception):  # noqa: N818 - of an invariant
    def __init__(self, invariant: Invariant, detail: str) -> None:
        super().__init__(f"{invariant}: {detail}")
        self.invariant = invariant


class Oracle:
    """Observes every step of every node, and all disks."""

    def __init__(self, voters: int) -> None:
        self.committed: list[Entry] = []
        self.acknowledged: dict[int, Entry] = {}
        self._majority = voters // 2 + 1
        self._ends = {0: 0}
        """The end of the committed records, by the epoch of the leader that committed them."""
        self._leaders: dict[int, tuple[int, int]] = {}
        self._votes: dict[tuple[ReplicaKey, int], ReplicaKey] = {}
        self._written: dict[tuple[int, int], Entry] = {}

    def stepped(self, node: "Node", nodes: "list[Node]") -> None:
        if node.core.state is State.LEADER:
            self._leads(node)
        if node.core.high_watermark != node.seen_high_watermark:
            self._advances(node, nodes)

    def _leads(self, node: "Node") -> None:
        core = node.core
        now, before = (node.id, node.incarnation), self._leaders.get(core.epoch)
        if before is None:
            self._leaders[core.epoch] = now
            self._is_complete(node)
        elif before[0] != now[0]:
            raise Violation(Invariant.ONE_LEADER, f"epoch {core.epoch} is led by {before[0]} and by {now[0]}")
        elif before != now:
            raise Violation(Invariant.LEADS_ONCE, f"node {node.id} leads epoch {core.epoch} again")

    def _is_complete(self, node: "Node") -> None:
        """A slow candidate may become the leader of its epoch after the leader of a later one has committed records."""
        end = max(end for epoch, end in self._ends.items() if epoch < node.core.epoch)
        if node.log.entries[:end] != self.committed[:end]:
            raise Violation(Invariant.COMPLETE, f"node {node.id} leads epoch {node.core.epoch} without all below {end}")

    def _advances(self, node: "Node", nodes: "list[Node]") -> None:
        high_watermark = node.core.high_watermark
        if high_watermark < node.seen_high_watermark:
            raise Violation(Invariant.FORWARD, f"node {node.id}: {node.seen_high_watermark} to {high_watermark}")
        known = node.log.entries[node.seen_high_watermark : high_watermark]
        start, node.seen_high_watermark = node.seen_high_watermark, high_watermark
        for offset, entry in enumerate(known, start):
            if offset < len(self.committed):
                if self.committed[offset] != entry:
                    raise Violation(Invariant.PREFIX, f"offset {offset} is {self.committed[offset]} and {entry}")
                continue
            disks = ((each, each.disk.records) for each in nodes)
            holders = [each for each, records in disks if offset < len(records) and records[offset] == entry]
            self.held(node, offset, holders)
            self.committed.append(entry)
            self._ends[node.core.epoch] = len(self.committed)
        if len(known) < high_watermark - start:
            raise Violation(Invariant.PREFIX, f"node {node.id} has not what it takes for committed")

    def held(self, node: "Node", offset: int, holders: "list[Node]") -> None:
        """`node` is the first for which the record at `offset` is committed; `holders` have it on their disks."""
        count = sum(each.is_voter for each in holders)
        if count < self._majority:
            raise Violation(Invariant.MAJORITY, f"offset {offset} is on the disks of {count}")

    def voted(self, node: "Node", epoch: int, candidate: ReplicaKey) -> None:
        before = self._votes.setdefault((node.key, epoch), candidate)
        if before != candidate:
            raise Violation(Invariant.VOTES_ONCE, f"node {node.id} in epoch {epoch}: {before.id} and {candidate.id}")

    def wrote(self, node: "Node", offset: int) -> None:
        """A record was written at `offset`; by induction all records before it agree as well."""
        epoch, value = node.log.entries[offset]
        previous = node.log.entries[offset - 1][0] if offset else NO_NODE
        before = self._written.setdefault((offset, epoch), (previous, value))
        if before != (previous, value):
            raise Violation(Invariant.MATCHING, f"offset {offset} of epoch {epoch} at node {node.id}")

    def loses(self, node: "Node", offset: int) -> None:
        """A leader's log loses from `offset` on what no other node has, since it was not durable."""
        for at in range(offset, len(node.log.entries)):
            if node.log.entries[at][0] == node.core.epoch and node.core.state is State.LEADER:
                del self._written[at, node.core.epoch]

    def fetches(self, node: "Node", offset: int) -> None:
        """All records below `offset` are the same on the disk; they are compared once, unless cut since."""
        log, records, start = node.log, node.disk.records, node.log.compared
        is_there = len(records) >= offset <= len(log.entries)
        if not is_there or (start < offset and records[start:offset] != log.entries[start:offset]):
            raise Violation(Invariant.SYNCED, f"node {node.id} acknowledges {offset}, disk {len(records)}")
        log.compared = max(start, offset)

    def snapshot_taken(self, node: "Node", snapshot: SnapshotId) -> None:
        content = node.disk.snapshots[snapshot]
        is_it = len(content) == snapshot.end_offset and content.is_begin_of(self.committed)
        if not is_it or self.committed[snapshot.end_offset - 1][0] != snapshot.epoch:
            raise Violation(Invariant.SNAPSHOT, f"node {node.id}: {snapshot} has {content.records()}")

    def trimmed(self, node: "Node") -> None:
        if node.disk.start and node.disk.base is None:
            raise Violation(Invariant.TRIMMED, f"node {node.id} has trimmed below {node.disk.start}")

    def acknowledge(self, offset: int, entry: "Entry") -> None:
        self.acknowledged[offset] = entry

    def at_end(self, nodes: "list[Node]") -> None:
        for node in nodes:
            for offset, entry in self.acknowledged.items():
                if node.log.entries[offset : offset + 1] != [entry]:
                    raise Violation(Invariant.KEPT, f"offset {offset} is lost at node {node.id}")
