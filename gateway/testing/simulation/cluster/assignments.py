"""The assignments of all partitions, judged by the committed records of the metadata log that change them.

A reassignment (KIP-455) grows a partition, and shrinks it once all replicas that stay are in sync:

    1,2,3 ─► 4,2,3,1, adding 4, removing 1 ─► 4,2,3          or, taken back, ─► 2,3,1

What is expected is computed from the records alone, and from what an operator has requested (`replica_changes.py`).
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
    """Which brokers have a partition, as the log says."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    leader: int

    @property
    def is_changing(self) -> bool:
        """Whether a reassignment is under way."""
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
        """What it is after a change."""
        return Assignment(
            replicas=self.replicas if record.replicas is None else record.replicas,
            isr=self.isr if record.isr is None else record.isr,
            adding=self.adding if record.adding_replicas is None else record.adding_replicas,
            removing=self.removing if record.removing_replicas is None else record.removing_replicas,
            leader=self.leader if record.leader == _LEADER_UNCHANGED else record.leader,
        )


class Assignments:
    """Follows the metadata log. Each method raises Violation."""

    def __init__(self) -> None:
        self.tally: Counter[str] = Counter()
        self._now: dict[Place, Assignment] = {}
        self._settled: dict[Place, frozenset[int]] = {}
        self._requested: dict[Place, set[tuple[int, ...]]] = {}
        self._heard: set[tuple[Place, tuple[int, ...]]] = set()

    def is_changing(self, place: Place) -> bool:
        """Whether a reassignment of a partition is under way."""
        now = self._now.get(place)
        return now is not None and now.is_changing

    def will_request(self, place: Place, replicas: tuple[int, ...] | None) -> None:
        """An operator is about to request these replicas, or with None that a reassignment is taken back."""
        if replicas is not None:
            self._requested.setdefault(place, set()).add(replicas)
            self._heard.discard((place, replicas))
            self._hear(place)

    def was_accepted(self, place: Place, replicas: tuple[int, ...]) -> None:
        """The request is answered without an error: since it was sent, the log has had this target."""
        heard = place not in self._now or (place, replicas) in self._heard
        message = f"{_name(place)} is {self._now.get(place)}, though {replicas} were accepted"
        check(heard, Invariant.REASSIGNED_AS_REQUESTED, message)

    def _hear(self, place: Place) -> None:
        now = self._now.get(place)
        if now is not None:
            self._heard.add((place, now.target))

    def follow(self, batch: StoredBatch) -> None:
        """A batch of the metadata log is committed."""
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
                self._set(place, after)
            case RemoveTopicRecord():
                for place in [each for each in self._now if each.topic_id == record.topic_id]:
                    del self._now[place]
            case _:
                pass

    def _set(self, place: Place, now: Assignment) -> None:
        self._check_consistent(place, now)
        self._now[place] = now
        self._hear(place)
        if not now.is_changing:
            self._settled[place] = frozenset(now.replicas)

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
        is_requested = after.replicas in self._requested.get(place, ()) or frozenset(replicas) == self._settled[place]
        check(is_requested, Invariant.REASSIGNED_AS_REQUESTED, where)

    def check_ended(self) -> None:
        """Once faults are over, no reassignment is under way, and every partition has a leader."""
        left = {
            _name(place): now
            for place, now in self._now.items()
            if now.is_changing or now.leader == NO_LEADER or set(now.isr) != set(now.replicas)
        }
        check(not left, Invariant.REASSIGNMENTS_END, f"in the end there are {left}")

    def check_is(self, place: Place, replicas: tuple[int, ...]) -> None:
        """Its replicas are those requested last, unless its topic is deleted."""
        now = self._now.get(place)
        message = f"{_name(place)} is {now} in the end, requested was {replicas}"
        check(now is None or now.replicas == replicas, Invariant.REASSIGNED_AS_REQUESTED, message)


def _name(place: Place) -> str:
    return f"partition {place.number} of {place.topic_id}"
