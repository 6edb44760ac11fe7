"""Groups on their way between the classic protocol and the consumer protocol (KIP-848, "Migration").

A live classic group becomes a consumer group with the first member that heartbeats; its classic members stay, and are
served by `consumer.classic_members`. It becomes a classic group again when the last new member has gone and classic
ones are left. Empty groups simply change hands. `group.consumer.migration.policy` may forbid either way.
"""

from collections.abc import Collection, Iterator, Mapping
from uuid import UUID

from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.groups import records as classic_records
from odradek.coordinator.groups.classic.consumer_protocol import PROTOCOL_TYPE
from odradek.coordinator.groups.classic.group import ClassicGroup, Member
from odradek.coordinator.groups.classic.rebalance import keep_alive, prepare_rebalance
from odradek.coordinator.groups.classic.responses import refuse_join, refuse_sync
from odradek.coordinator.groups.classic.states import GroupState
from odradek.coordinator.groups.consumer import records
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.groups.consumer.member import ClassicSide, ConsumerMember, Held, Partitions
from odradek.coordinator.groups.consumer.metadata import metadata_hash
from odradek.coordinator.groups.consumer.replay import apply
from odradek.coordinator.groups.decision import Decision
from odradek.coordinator.groups.table import GroupTable
from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.coordinator.timers import Timer, TimerKind
from odradek.wire.consumer_metadata import decode_assignment, decode_subscription, encode_assignment
from odradek.wire.errors import ErrorCode, ProtocolError
from odradek.wire.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolAssignmentTopicPartition
from odradek.wire.schema.versioned import peek_int16


def consumer_group(table: GroupTable, group_id: str) -> ConsumerGroup:
    """The consumer group of this id. Raises RefusedError (GROUP_ID_NOT_FOUND)."""
    group = table.consumer.groups.get(group_id)
    if group is None:
        raise _not_found(table, group_id)
    return group


def _not_found(table: GroupTable, group_id: str, why: str = "") -> RefusedError:
    if group_id in table.groups:
        return RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group{why}.")
    return RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")


def open_group(table: GroupTable, group_id: str, joins: bool, decision: Decision) -> ConsumerGroup:
    """The group that a heartbeat is about: there already, new, or what a classic group becomes.

    Raises RefusedError (GROUP_ID_NOT_FOUND) when there is none and the member does not join, or it may not change.
    """
    group = table.consumer.groups.get(group_id)
    if group is not None:
        return group
    if not joins:
        raise _not_found(table, group_id)
    classic = table.groups.get(group_id)
    if classic is None:
        return ConsumerGroup(group_id)
    if classic.state is GroupState.EMPTY:
        if classic.stored is not None:
            decision.record(classic_records.group_tombstone(group_id))
        return ConsumerGroup(group_id)
    return _upgrade(table, classic, decision)


# Upwards


def _upgrade(table: GroupTable, classic: ClassicGroup, decision: Decision) -> ConsumerGroup:
    """The classic group as a consumer group; whoever waits in its rebalance is told to join anew."""
    config = table.config.consumer
    if not config.upgrades:
        raise _not_found(table, classic.group_id, ", and group.consumer.migration.policy does not let it become one")
    if not classic.is_consumer_group():
        raise _not_found(table, classic.group_id, ", and its members do not speak the consumer's protocol")
    if len(classic.members) > config.group_consumer_max_size:
        raise _not_found(table, classic.group_id, ", and has too many members to become one")
    try:
        if any(_has_user_data(member) for member in classic.members.values()):
            raise _not_found(table, classic.group_id, ", and its assignor writes user data, which would be lost")
        group = _as_consumer_group(classic, table.consumer.image())
    except ProtocolError as error:
        raise _not_found(table, classic.group_id, ", and its members' protocol is malformed") from error
    for waiter in classic.joining.values():
        refuse_join(decision, waiter, ErrorCode.REBALANCE_IN_PROGRESS, "")
    for token in classic.syncing.values():
        refuse_sync(decision, token, ErrorCode.REBALANCE_IN_PROGRESS)
    decision.record(classic_records.group_tombstone(classic.group_id))
    upgraded = ConsumerGroup(classic.group_id)
    for record in records.group_records(group):
        decision.record(record)
        apply(upgraded, record)
    for member in classic.members.values():
        deadline_ms = decision.now_ms + member.session_timeout_ms
        table.consumer.arm(TimerKind.CONSUMER_SESSION, classic.group_id, member.member_id, deadline_ms)
    return upgraded


def _as_consumer_group(classic: ClassicGroup, image: MetadataImage) -> ConsumerGroup:
    """Every member is Stable in the classic generation, with what it was assigned then."""
    group = ConsumerGroup(classic.group_id)
    group.epoch = group.target_epoch = classic.generation
    for member in classic.members.values():
        upgraded = _as_consumer_member(member, classic, image)
        group.put(upgraded)
        group.target[upgraded.member_id] = {t: frozenset(held) for t, held in upgraded.assigned.items()}
    group.metadata_hash = metadata_hash(group.subscribed_topics(), image)
    return group


def _as_consumer_member(member: Member, classic: ClassicGroup, image: MetadataImage) -> ConsumerMember:
    spoken = member.metadata(classic.protocol) or member.protocols[0][1]
    subscription = decode_subscription(spoken)
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
        assigned=_read_assignment(member.assignment, classic.generation, image),
    )


def _has_user_data(member: Member) -> bool:
    """Whether the member's assignment carries more than partitions: no assignor of the coordinator's writes that."""
    return bool(member.assignment) and bool(decode_assignment(member.assignment).user_data)


def _read_assignment(data: bytes, epoch: int, image: MetadataImage) -> Held:
    if not data:
        return {}
    held: dict[UUID, Mapping[int, int]] = {}
    for named in decode_assignment(data).assigned_partitions:
        topic = image.topic(named.topic)
        if topic is not None and named.partitions:
            held[topic.topic_id] = dict.fromkeys(named.partitions, epoch)
    return held


# Downwards


def can_downgrade(table: GroupTable, group: ConsumerGroup, gone: Collection[str]) -> bool:
    """Whether without those that go only classic members are left, and the group may become a classic one."""
    left = [member for member_id, member in group.members.items() if member_id not in gone]
    all_classic = bool(left) and all(member.classic is not None for member in left)
    return all_classic and table.config.consumer.downgrades and len(left) <= table.config.group_max_size


def downgrade(table: GroupTable, group: ConsumerGroup, gone: Collection[str], decision: Decision) -> None:
    """Make a classic group of the classic members that are left, and have them rebalance."""
    classic = to_classic(table, group, gone, decision)
    prepare_rebalance(table, classic, decision)


def to_classic(table: GroupTable, group: ConsumerGroup, gone: Collection[str], decision: Decision) -> ClassicGroup:
    """The classic group that `group` becomes without those that go: Stable, with what its members were to have."""
    classic = ClassicGroup(group.group_id, decision.now_ms)
    classic.state, classic.generation = GroupState.STABLE, group.epoch
    classic.protocol_type = PROTOCOL_TYPE
    for member_id, member in group.members.items():
        if member_id not in gone:
            assert member.classic is not None, f"{member_id} speaks no classic protocol"
            classic.add(_as_classic_member(group.group_id, member, member.classic))
    classic.protocol = classic.select_protocol()
    classic.learn_subscriptions()
    for member in classic.members.values():
        target = group.target.get(member.member_id, {})
        member.assignment = write_assignment(target, member.metadata(classic.protocol), table.consumer.image())
    for record in records.group_tombstones(group):
        decision.record(record)
    assignments = classic_records.assignments_of(classic)
    decision.record(classic_records.group_record(classic, assignments, decision.now_ms))
    table.groups[group.group_id] = classic
    for member in classic.members.values():
        keep_alive(table, member, decision.now_ms)
    return classic


def _as_classic_member(group_id: str, member: ConsumerMember, side: ClassicSide) -> Member:
    return Member(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=side.session_timeout_ms,
        protocols=side.protocols,
        session=Timer(TimerKind.SESSION, group_id, member.member_id),
    )


def write_assignment(partitions: Partitions | Held, metadata: bytes, image: MetadataImage) -> bytes:
    """What a classic member is assigned, in the version in which it subscribed."""
    version = min(max(peek_int16(memoryview(metadata), "a subscription"), 0), 3)
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=tuple(_named(partitions, image))), version)


def _named(partitions: Partitions | Held, image: MetadataImage) -> Iterator[ConsumerProtocolAssignmentTopicPartition]:
    for topic_id, indexes in partitions.items():
        topic = image.topic_by_id(topic_id)
        if topic is not None:
            yield ConsumerProtocolAssignmentTopicPartition(topic=topic.name, partitions=tuple(sorted(indexes)))


def release_empty(table: GroupTable, group_id: str, decision: Decision) -> None:
    """Let an empty consumer group go, for a classic member is about to found a classic one."""
    group = table.consumer.groups.get(group_id)
    if group is not None and not group.members:
        for record in records.group_tombstones(group):
            decision.record(record)
