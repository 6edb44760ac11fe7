"""A classic group with members becomes a consumer group (KIP-848, "Migration").

Its members keep their ids and assignments, and are served by `classic_members` from then on. The decided records are
the classic group's tombstone, and all records of the consumer group.
"""

from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.contract import ShardRecord
from odradek.coordinator.groups.classic.group import ClassicGroup, Member
from odradek.coordinator.groups.classic.records import group_tombstone
from odradek.coordinator.groups.classic.responses import refuse_join, refuse_sync
from odradek.coordinator.groups.classic.states import GroupState
from odradek.coordinator.groups.consumer import records
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.groups.consumer.member import ClassicSide, ConsumerMember, Held
from odradek.coordinator.groups.consumer.member_state import MemberState
from odradek.coordinator.groups.consumer.metadata import metadata_hash
from odradek.coordinator.groups.consumer.replay import apply
from odradek.coordinator.groups.consumer.timer_kinds import ConsumerTimer
from odradek.coordinator.groups.decision import Decision
from odradek.coordinator.groups.table import GroupTable
from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.wire.consumer_metadata import decode_assignment, decode_subscription
from odradek.wire.errors import ErrorCode, ProtocolError
from odradek.wire.messages.consumer_protocol import ConsumerProtocolSubscription


def upgrade(table: GroupTable, classic: ClassicGroup, decision: Decision) -> ConsumerGroup:
    """Convert a classic group with members to a consumer group; held JoinGroup and SyncGroup requests are refused.

    Raises:
        RefusedError: GROUP_ID_NOT_FOUND, when the group may not or cannot be converted; the message has the reason.
    """
    config = table.config.consumer
    if not config.upgrades:
        raise not_upgraded(classic, "online upgrade is disabled")
    if not classic.is_consumer_group():
        raise not_upgraded(classic, "the group does not use the consumer embedded protocol")
    if len(classic.members) > config.group_consumer_max_size:
        raise not_upgraded(classic, "the group size exceeds the consumer group maximum size")
    group = _converted(table, classic)
    for waiter in classic.joining.values():
        refuse_join(decision, waiter, ErrorCode.REBALANCE_IN_PROGRESS, "")
    for token in classic.syncing.values():
        refuse_sync(decision, token, ErrorCode.REBALANCE_IN_PROGRESS)
    decision.record(group_tombstone(classic.group_id))
    upgraded = ConsumerGroup(classic.group_id)
    for record in _group_records(group):
        decision.record(record)
        apply(upgraded, record)
    for member in classic.members.values():
        deadline_ms = decision.now_ms + member.session_timeout_ms
        table.consumer.arm(ConsumerTimer.SESSION, classic.group_id, member.member_id, deadline_ms)
    return upgraded


def _converted(table: GroupTable, classic: ClassicGroup) -> ConsumerGroup:
    """Returns the same group as a consumer group. Raises RefusedError if its members' data does not allow it."""
    try:
        if any(_has_user_data(member) for member in classic.members.values()):
            raise not_upgraded(
                classic,
                "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
                "assignor before re-attempting the upgrade",
            )
        group = _as_consumer_group(classic, table.consumer.image())
    except ProtocolError as error:
        raise not_upgraded(classic, "the embedded consumer protocol is malformed") from error
    if _assigns_twice(group):
        raise not_upgraded(classic, "its leader has assigned a partition to several members")
    return group


def not_upgraded(classic: ClassicGroup, why: str) -> RefusedError:
    """Returns the error for a classic group that is not converted, in Kafka's words, which tools look for."""
    message = f"Cannot upgrade classic group {classic.group_id} to consumer group because {why}."
    return RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, message)


def not_found(table: GroupTable, group_id: str) -> RefusedError:
    """Returns the error for an id without a consumer group."""
    if table.find(group_id) is not None:
        return RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
    return RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")


def _as_consumer_group(classic: ClassicGroup, image: MetadataImage) -> ConsumerGroup:
    """Returns a consumer group in which every member is in the classic generation, with its last assignment.

    That is its target, too. Unless the target is final, the group epoch is one higher, so that a new one is computed.
    """
    group = ConsumerGroup(classic.group_id)
    group.epoch = group.target_epoch = classic.generation
    for member in classic.members.values():
        upgraded = _as_consumer_member(member, classic, image)
        group.put(upgraded)
        group.target[upgraded.member_id] = {t: frozenset(held) for t, held in upgraded.assigned.items()}
    group.metadata_hash = metadata_hash(group.subscribed_topics(), image)
    if classic.state is not GroupState.STABLE or not _assigns_all(group, image):
        group.epoch += 1
    for member in classic.members.values():
        group.put(_with_owned(group, group.members[member.member_id], _subscription(member, classic), image))
    return group


def _assigns_all(group: ConsumerGroup, image: MetadataImage) -> bool:
    """True if exactly the partitions of the topics subscribed to are assigned.

    It is False if partitions were added since the assignment, or if the leader of the cooperative protocol has not yet
    reassigned partitions that members gave up: only a leader would notice, and the group no longer has one.
    """
    topics = [topic for name in group.subscribed_topics() if (topic := image.topic(name)) is not None]
    return group.owners.keys() == {
        (topic.topic_id, index) for topic in topics for index in range(len(topic.partitions))
    }


def _with_owned(
    group: ConsumerGroup, member: ConsumerMember, subscription: ConsumerProtocolSubscription, image: MetadataImage
) -> ConsumerMember:
    """Returns the member with the partitions that it owned when it joined, and that no member has now, as revoking.

    In the cooperative protocol it may not have released them yet. It has when it joins again without them.
    """
    revoking: dict[UUID, dict[int, int]] = {}
    for named in subscription.owned_partitions:
        topic = image.topic(named.topic)
        if topic is not None:
            left = [index for index in named.partitions if (topic.topic_id, index) not in group.owners]
            if left:
                revoking[topic.topic_id] = dict.fromkeys(left, member.epoch)
    return replace(member, state=MemberState.UNREVOKED_PARTITIONS, revoking=revoking) if revoking else member


def _assigns_twice(group: ConsumerGroup) -> bool:
    """True if several members have the same partition, which a consumer group cannot express: it has one owner."""
    held = [side for member in group.members.values() for side in (member.assigned, member.revoking)]
    return sum(len(indexes) for side in held for indexes in side.values()) > len(group.owners)


def _as_consumer_member(member: Member, classic: ClassicGroup, image: MetadataImage) -> ConsumerMember:
    subscription = _subscription(member, classic)
    return ConsumerMember(
        member_id=member.member_id,
        epoch=classic.generation,
        previous_epoch=classic.generation,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topics=frozenset(subscription.topics),
        classic=ClassicSide(member.session_timeout_ms, member.protocols),
        assigned=_read_assignment(member.last_assignment, classic.generation, image),
    )


def _subscription(member: Member, classic: ClassicGroup) -> ConsumerProtocolSubscription:
    return decode_subscription(member.metadata(classic.protocol) or member.protocols[0][1])


def _has_user_data(member: Member) -> bool:
    """True if the member's assignment has user data, which the coordinator's assignors would not keep."""
    return bool(member.last_assignment) and bool(decode_assignment(member.last_assignment).user_data)


def _read_assignment(data: bytes, epoch: int, image: MetadataImage) -> Held:
    if not data:
        return {}
    held: dict[UUID, Mapping[int, int]] = {}
    for named in decode_assignment(data).assigned_partitions:
        topic = image.topic(named.topic)
        if topic is not None and named.partitions:
            held[topic.topic_id] = dict.fromkeys(named.partitions, epoch)
    return held


def _group_records(group: ConsumerGroup) -> list[ShardRecord]:
    """Returns all records of a new group."""
    group_id, listed = group.group_id, tuple(group.members.values())
    return [
        *(records.member_record(group_id, member) for member in listed),
        records.epoch_record(group_id, group.epoch, group.metadata_hash),
        *(records.target_record(group_id, member.member_id, group.target[member.member_id]) for member in listed),
        records.target_epoch_record(group_id, group.target_epoch, group.target_timestamp_ms),
        *(records.current_record(group_id, member) for member in listed),
    ]
