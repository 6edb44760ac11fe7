"""Checks the assignments of all partitions against the committed records of the metadata log that change them.

A reassignment (KIP-455) grows a partition, and shrinks it once all replicas that stay are in sync:

    1,2,3 ─► 4,2,3,1, adding 4, removing 1 ─► 4,2,3          or, if cancelled, ─► 2,3,1

A new target removes what the previous one was adding, unless no other replica is in sync: then that stays until the
end, and if the reassignment is cancelled, also afterwards.

The expected assignment is computed only from the records and from an operator's requests (`replica_changes.py`).
"""

from collections import Counter
from typing import Final, NamedTuple
from uuid import UUID

from odradek.gateway.testing.simulation.loads.oracle import Invariant, check
from odradek.partitions.model import StoredBatch
from odradek.wire.records.batch import parse_header
from odradek.wire.records.reader import read_records
from odradek.wire.schema.schema import Message
from odradek.wire.stored.framing import decode_metadata_record
from odradek.wire.stored.metadata_records import PartitionChangeRecord, PartitionRecord, RemoveTopicRecord

NO_LEADER: Final = -1
_LEADER_UNCHANGED: Final = -2


class Place(NamedTuple):
    """A partition of a topic."""

    topic_id: UUID
    number: int


class Assignment(NamedTuple):
    """The assignment of a partition according to the log."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    leader: int

    @property
    def is_changing(self) -> bool:
        """True while a reassignment is under way."""
        return bool(self.adding or self.removing)

    @property
    def original(self) -> frozenset[int]:
        """The replicas without those that a reassignment is adding."""
        return frozenset(self.replicas) - frozenset(self.adding)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas without those that a reassignment is removing."""
        return tuple(each for each in self.replicas if each not in self.removing)

    def changed(self, record: PartitionChangeRecord) -> "Assignment":
        """The assignment after a change."""
        return Assignment(
            replicas=self.replicas if record.replicas is None else record.replicas,
            isr=self.isr if record.isr is None else record.isr,
            adding=self.adding if record.adding_replicas is None else record.adding_replicas,
            removing=self.removing if record.removing_replicas is None else record.removing_replicas,
            leader=self.leader if record.leader == _LEADER_UNCHANGED else record.leader,
        )


class Assignments:
    """Follows the metadata log. Methods that check raise Violation."""

    def __init__(self) -> None:
        self.tally: Counter[str] = Counter()
        self._now: dict[Place, Assignment] = {}
        self._settled: dict[Place, frozenset[int]] = {}
        self._kept: dict[Place, frozenset[int]] = {}
        self._requested: dict[Place, set[tuple[int, ...]]] = {}
        self._targets_seen: set[tuple[Place, tuple[int, ...]]] = set()

    def is_changing(self, place: Place) -> bool:
        """True while a reassignment of the partition is under way."""
        now = self._now.get(place)
        return now is not None and now.is_changing

    def will_request(self, place: Place, replicas: tuple[int, ...] | None) -> None:
        """Record that an operator is about to request these replicas, or with None to cancel a reassignment."""
        if replicas is not None:
            self._requested.setdefault(place, set()).add(replicas)
            self._targets_seen.discard((place, replicas))
            self._note_target(place)

    def was_accepted(self, place: Place, replicas: tuple[int, ...]) -> None:
        """Check, for a request that has succeeded, that the log has had this target since it was sent."""
        was_seen = place not in self._now or (place, replicas) in self._targets_seen
        message = f"{_name(place)} is {self._now.get(place)}, though {replicas} were accepted"
        check(was_seen, Invariant.REASSIGNED_AS_REQUESTED, message)

    def _note_target(self, place: Place) -> None:
        now = self._now.get(place)
        if now is not None:
            self._targets_seen.add((place, now.target))

    def follow(self, batch: StoredBatch) -> None:
        """Replay a committed batch of the metadata log."""
        if parse_header(memoryview(batch.data)).is_control:
            return
        for record in read_records(memoryview(batch.data)):
            if record.value is not None:
                self._replay(decode_metadata_record(record.value)[0])

    def _replay(self, record: Message) -> None:
        match record:
            case PartitionRecord():
                self._set(
                    Place(record.topic_id, record.partition_id),
                    Assignment(
                        record.replicas, record.isr, record.adding_replicas, record.removing_replicas, record.leader
                    ),
                )
            case PartitionChangeRecord():
                place = Place(record.topic_id, record.partition_id)
                before = self._now[place]
                after = before.changed(record)
                self._check_change(place, before, after)
                self._check_retargeted(place, before, after)
                self._set(place, after)
            case RemoveTopicRecord():
                for place in [each for each in self._now if each.topic_id == record.topic_id]:
                    del self._now[place]
            case _:
                pass

    def _set(self, place: Place, now: Assignment) -> None:
        self._check_consistent(place, now)
        self._now[place] = now
        self._note_target(place)
        if not now.is_changing:
            self._settled[place] = frozenset(now.replicas)
            self._kept.pop(place, None)

    @staticmethod
    def _check_consistent(place: Place, now: Assignment) -> None:
        replicas, adding, removing = set(now.replicas), set(now.adding), set(now.removing)
        consistent = (
            len(replicas) == len(now.replicas) > 0
            and replicas >= {*now.isr, *adding, *removing}
            and adding.isdisjoint(removing)
            and now.leader in (NO_LEADER, *now.isr)
        )
        check(consistent, Invariant.ASSIGNMENT_CONSISTENT, f"{_name(place)} is {now}")

    def _check_change(self, place: Place, before: Assignment, after: Assignment) -> None:
        if before.replicas == after.replicas and before.is_changing == after.is_changing:
            return
        where = f"{_name(place)} goes from {before} to {after}"
        replicas = set(after.replicas)
        unsynced = replicas.difference(after.isr)
        gained = replicas.difference(before.replicas, after.adding)
        joined = replicas.intersection(before.adding).difference(after.adding, after.removing)
        leaves = not replicas >= before.original
        check(not gained, Invariant.REASSIGNED_IN_SYNC, where)
        check(joined.isdisjoint(unsynced), Invariant.REASSIGNED_IN_SYNC, where)
        check(not (leaves and unsynced), Invariant.REASSIGNED_IN_SYNC, where)
        if after.is_changing:
            self.tally["reassignments begun"] += not before.is_changing
            return
        self.tally["reassignments ended"] += before.is_changing or leaves
        settled = self._settled[place]
        is_as_before = settled <= replicas <= settled | self._kept.get(place, frozenset())
        check(
            is_as_before or after.replicas in self._requested.get(place, ()), Invariant.REASSIGNED_AS_REQUESTED, where
        )

    def _check_retargeted(self, place: Place, before: Assignment, after: Assignment) -> None:
        """Check that a replica which another target was adding stays for its removal only if no other is in sync."""
        kept = frozenset(before.adding).intersection(after.removing)
        if kept:
            where = f"{_name(place)} goes from {before} to {after}"
            check(kept.issuperset(after.isr), Invariant.REASSIGNED_AS_REQUESTED, where)
            self._kept[place] = self._kept.get(place, frozenset()) | kept

    def check_ended(self) -> None:
        """Check at the end that no reassignment is under way, and every partition has a leader and a full ISR."""
        left = {
            _name(place): now
            for place, now in self._now.items()
            if now.is_changing or now.leader == NO_LEADER or set(now.isr) != set(now.replicas)
        }
        check(not left, Invariant.REASSIGNMENTS_END, f"in the end there are {left}")

    def check_is(self, place: Place, replicas: tuple[int, ...]) -> None:
        """Check that the partition has the replicas requested last, unless its topic was deleted."""
        now = self._now.get(place)
        message = f"{_name(place)} is {now} in the end, requested was {replicas}"
        check(now is None or now.replicas == replicas, Invariant.REASSIGNED_AS_REQUESTED, message)


def _name(place: Place) -> str:
    return f"partition {place.number} of {place.topic_id}"
