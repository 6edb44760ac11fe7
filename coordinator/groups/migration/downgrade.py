"""A consumer group in which only classic members remain becomes a classic group (KIP-848, "Migration")."""

from collections.abc import Collection, Iterator
from typing import Final

from odradek.coordinator.groups.classic.generation import assignments_of, group_record
from odradek.coordinator.groups.classic.group import ClassicGroup, Member
from odradek.coordinator.groups.classic.rebalance import keep_alive, prepare_rebalance
from odradek.coordinator.groups.classic.states import GroupState
from odradek.coordinator.groups.classic.timer_kinds import ClassicTimer
from odradek.coordinator.groups.consumer.expiry import start_timers_of
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.groups.consumer.member import ClassicSide, ConsumerMember, Held, Partitions
from odradek.coordinator.groups.decision import Decision
from odradek.coordinator.groups.table import GroupTable
from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.coordinator.timers import Timer
from odradek.wire.consumer_metadata import PROTOCOL_TYPE, encode_assignment
from odradek.wire.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolAssignmentTopicPartition
from odradek.wire.schema.versioned import peek_int16

VERSION_BYTES: Final = 2
"""The size of the version at the start of a subscription."""


def can_downgrade(table: GroupTable, group: ConsumerGroup, removed: Collection[str]) -> bool:
    """True if without `removed` only classic members remain, and the group may become a classic one."""
    left = [member for member_id, member in group.members.items() if member_id not in removed]
    all_classic = bool(left) and all(member.classic is not None for member in left)
    return all_classic and table.config.consumer.downgrades and len(left) <= table.config.group_max_size


def downgrade(table: GroupTable, group: ConsumerGroup, removed: Collection[str], decision: Decision) -> None:
    """Convert the group without `removed` to a classic group, and start a rebalance."""
    classic = _to_classic(table, group, removed, decision)
    prepare_rebalance(table.classic, classic, decision)


def _to_classic(table: GroupTable, group: ConsumerGroup, removed: Collection[str], decision: Decision) -> ClassicGroup:
    """Convert the group without `removed` to a classic group: Stable, with the target assignment of its members.

    It has no leader, in its record either: no client knows that it leads. A coordinator that loads the record starts
    the rebalance again.
    """
    for member_id in group.members:  # replay of the tombstones no longer knows them
        table.consumer.disarm_member(group.group_id, member_id)
    classic = ClassicGroup(group.group_id, decision.now_ms)
    classic.state, classic.generation = GroupState.STABLE, group.epoch
    classic.protocol_type = PROTOCOL_TYPE
    for member_id, member in group.members.items():
        if member_id not in removed:
            assert member.classic is not None, f"{member_id} does not use the classic protocol"
            classic.add(_as_classic_member(group.group_id, member, member.classic))
    classic.protocol = classic.select_protocol()
    classic.leader = None
    classic.read_subscriptions()
    for member in classic.members.values():
        target = group.target.get(member.member_id, {})
        member.assign(write_assignment(target, member.metadata(classic.protocol), table.consumer.image()))
    decision.write(group.tombstones())
    decision.record(group_record(classic, assignments_of(classic), decision.now_ms))
    table.classic.groups[group.group_id] = classic
    for member in classic.members.values():
        keep_alive(table.classic, member, decision.now_ms)
    return classic


def undo_downgrade(table: GroupTable, group_id: str, now_ms: int) -> None:
    """Undo what a downgrade has changed before its records are replayed, because they are not written.

    The members' timers that have fired or were cancelled start again. Other groups stay as they are.
    """
    group = table.consumer.groups.get(group_id)
    if group is None:
        return
    classic = table.classic.groups.pop(group_id, None)
    if classic is not None:
        table.classic.cancel_timers(classic)
    start_timers_of(table.consumer, group, now_ms)


def _as_classic_member(group_id: str, member: ConsumerMember, side: ClassicSide) -> Member:
    return Member(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=side.session_timeout_ms,
        protocols=side.protocols,
        session=Timer(ClassicTimer.SESSION, group_id, member.member_id),
    )


def write_assignment(partitions: Partitions | Held, metadata: bytes, image: MetadataImage) -> bytes:
    """Encode the assignment of a classic member, in the version of its subscription `metadata`.

    Version 0, which every consumer reads, if the metadata is too short to have one: of a member's protocols only the
    first was decoded when it joined, as in Kafka.
    """
    has_version = len(metadata) >= VERSION_BYTES
    version = min(max(peek_int16(memoryview(metadata), "a subscription"), 0), 3) if has_version else 0
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=tuple(_named(partitions, image))), version)


def _named(partitions: Partitions | Held, image: MetadataImage) -> Iterator[ConsumerProtocolAssignmentTopicPartition]:
    for topic_id, indexes in partitions.items():
        topic = image.topic_by_id(topic_id)
        if topic is not None:
            yield ConsumerProtocolAssignmentTopicPartition(topic=topic.name, partitions=tuple(sorted(indexes)))
