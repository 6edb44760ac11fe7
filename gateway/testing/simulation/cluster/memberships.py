"""The state of a consumer group of the new protocol (KIP-848) according to the committed records of its log.

The coordinator moves between brokers, and a former one may still answer, with old state, requests that need no record,
as in Kafka. So a group's decisions are checked in its log, and the answers to its members are compared with the log.
"""

from collections import Counter
from typing import Final, NamedTuple
from uuid import UUID

from odradek.gateway.testing.simulation.cluster.recorded import RecordedOracle
from odradek.gateway.testing.simulation.loads.oracle import EpochOracle, Invariant, check
from odradek.partitions.model import StoredBatch
from odradek.wire.records.batch import parse_header
from odradek.wire.records.reader import read_records
from odradek.wire.schema.schema import Message
from odradek.wire.stored.framing import decode_key, decode_value, group_key_types
from odradek.wire.stored.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from odradek.wire.stored.group_records import TopicPartitions as Owned

Held = tuple[UUID, int]
"""A topic and the number of a partition."""
_DELETED: Final = -1


class Membership(NamedTuple):
    """A member's epoch, and the partitions that it owns until it has revoked them."""

    epoch: int
    held: frozenset[Held]


class MembersOracle(RecordedOracle, EpochOracle):
    """See `EpochOracle`: for the group `group`, which reads `topic`. `follow` replays its log."""

    def __init__(self, group: str, topic: str) -> None:
        super().__init__(topic)
        self.tally: Counter[str] = Counter()
        self._group, self._topic = group, topic
        self._members: dict[str, Membership] = {}
        self._ever: set[str] = set()
        self._ids: dict[str, str] = {}
        self._sent: Counter[tuple[int, int]] = Counter()

    # The log

    def follow(self, batch: StoredBatch) -> None:
        """Replay a committed batch of `__consumer_offsets`. Raises Violation."""
        if parse_header(memoryview(batch.data)).is_control:
            return
        for record in read_records(memoryview(batch.data)):
            if record.key is not None:
                self._replay(decode_key(record.key, group_key_types()), record.value)
        holders: dict[Held, str] = {}
        for member_id, member in self._members.items():
            for held in member.held:
                other = holders.setdefault(held, member_id)
                text = f"partition {held[1]} is held by {other} and {member_id}: {self._members}"
                check(other == member_id, Invariant.ONE_HOLDER, text)

    def _replay(self, key: Message, value: bytes | None) -> None:
        match key:
            case ConsumerGroupCurrentMemberAssignmentKey(group_id=self._group):
                now = None if value is None else decode_value(ConsumerGroupCurrentMemberAssignmentValue, value)
                self._member_changes(key.member_id, now)
            case OffsetCommitKey(group=self._group, topic=self._topic):
                offset = _DELETED if value is None else decode_value(OffsetCommitValue, value).offset
                self._offset_changes(key.partition, offset)
            case _:
                pass

    def _member_changes(self, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue | None) -> None:
        before = self._members.pop(member_id, None)
        self._ever.add(member_id)
        if value is None:
            self.tally["members that left"] += before is not None
            return
        now = Membership(value.member_epoch, _held(value.assigned_partitions, value.partitions_pending_revocation))
        text = f"{member_id} goes from {before} to {now}"
        check(before is None or now.epoch >= before.epoch, Invariant.GENERATIONS_GROW, text)
        self._members[member_id] = now

    def _offset_changes(self, partition: int, offset: int) -> None:
        """Check that the offset was sent and not rejected; if lower than an acknowledged one, that it is unanswered."""
        self._sent[partition, offset] -= 1
        floor = self._committed.get(partition, _DELETED)
        text = f"{offset} is committed for {partition}, {floor} was acknowledged"
        check(self._sent[partition, offset] >= 0, Invariant.FENCED_COMMITS_REFUSED, f"{text}, and it was refused")
        check(offset >= floor or self._unsure[partition, offset] > 0, Invariant.COMMITS_KEPT, text)

    # The members

    def joins_as(self, member: str, member_id: str) -> None:
        """See `EpochOracle.joins_as`."""
        self._ids[member] = member_id

    def will_commit(self, partition: int, offset: int) -> None:
        """See `Oracle.will_commit`."""
        self._sent[partition, offset] += 1
        super().will_commit(partition, offset)

    def was_refused(self, partition: int, offset: int) -> None:
        """See `Oracle.was_refused`."""
        self._sent[partition, offset] -= 1
        super().was_refused(partition, offset)

    def is_fenced(self, member: str, generation: int, partition: int) -> bool:
        """True if, in the log, the member has left the group, or is in a later epoch without the partition."""
        member_id = self._ids.get(member, "")
        known = self._members.get(member_id)
        if known is None:
            return member_id in self._ever
        return generation < known.epoch and partition not in {number for _, number in known.held}


def _held(*parts: tuple[Owned, ...]) -> frozenset[Held]:
    return frozenset((each.topic_id, number) for part in parts for each in part for number in each.partitions)
