"""Applies records to the state: the only place where what is durable changes, in a restart as in live handling."""

from odradek.coordinator.contract import ShardRecord
from odradek.coordinator.groups.classic.group import ClassicGroup, Member
from odradek.coordinator.groups.classic.states import GroupState
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.groups.consumer.replay import apply_to, decode_consumer_key
from odradek.coordinator.groups.offsets.store import Place
from odradek.coordinator.groups.records import decode_group, decode_key, decode_offset, offset_place
from odradek.coordinator.groups.table import GroupTable
from odradek.coordinator.timers import Timer, TimerKind
from odradek.wire.records.batch import NO_PRODUCER_ID
from odradek.wire.stored.group_records import (
    ConsumerGroupMetadataKey,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitValue,
)


def replay(table: GroupTable, record: ShardRecord, now_ms: int) -> None:
    """Apply one record; kinds that this coordinator does not know are left alone."""
    place = offset_place(record.key)
    if place is not None:
        _replay_offset(table, place, record, now_ms)
        return
    key = decode_key(record.key)
    if key is None:
        _replay_consumer(table, record, now_ms)
        return
    assert isinstance(key, GroupMetadataKey)  # those of offsets are above
    if record.value is None:
        _replay_tombstone(table, key.group, now_ms)
    else:
        _replay_group(table, key.group, decode_group(record.value), now_ms)


def _replay_offset(table: GroupTable, place: Place, record: ShardRecord, now_ms: int) -> None:
    if record.value is None:
        table.offsets.remove(*place)
        return
    value = record.decoded if isinstance(record.decoded, OffsetCommitValue) else decode_offset(record.value)
    if record.producer_id == NO_PRODUCER_ID:
        table.offsets.put(*place, value)
    else:
        table.offsets.put_pending(record.producer_id, *place, value)
    group_id = place[0]
    if group_id not in table.groups and group_id not in table.consumer.groups:
        # A simple consumer commits without being a member of anything; its group has no record of its own.
        table.groups[group_id] = ClassicGroup(group_id, now_ms)


def _replay_tombstone(table: GroupTable, group_id: str, now_ms: int) -> None:
    group = table.groups.pop(group_id, None)
    if group is not None:
        table.cancel_timers(group)
        group.become(GroupState.DEAD, now_ms)


def _replay_consumer(table: GroupTable, record: ShardRecord, now_ms: int) -> None:
    """A consumer group begins with any record of its own, in the place of what was there, and ends with its epoch's."""
    key = decode_consumer_key(record.key)
    if key is None:
        return
    group_id = key.group_id
    group = table.consumer.groups.get(group_id)
    if isinstance(key, ConsumerGroupMetadataKey) and record.value is None:
        table.consumer.forget(group_id)
        return
    if group is None and record.value is not None:
        _replay_tombstone(table, group_id, now_ms)
        group = table.consumer.groups[group_id] = ConsumerGroup(group_id)
    if group is not None:
        apply_to(group, key, record.value)


def _replay_group(table: GroupTable, group_id: str, value: GroupMetadataValue, now_ms: int) -> None:
    table.consumer.forget(group_id)
    group = table.groups.get(group_id)
    if group is not None and _was_decided_here(group, value):
        _finish(group, value, now_ms)
        return
    if group is not None:
        table.cancel_timers(group)
    table.groups[group_id] = _rebuild(group_id, value, now_ms)


def _was_decided_here(group: ClassicGroup, value: GroupMetadataValue) -> bool:
    """Whether the working copy is what an operation made this record from, and not an older generation's."""
    same_members = not value.members or [m.member_id for m in value.members] == list(group.members)
    return value.generation == group.generation and same_members


def _finish(group: ClassicGroup, value: GroupMetadataValue, now_ms: int) -> None:
    """The record of the working copy itself. That of a new group finds it already rebalancing and changes no state."""
    group.stored = value
    for stored in value.members:
        group.members[stored.member_id].assignment = bytes(stored.assignment)
    if value.members:
        group.learn_subscriptions()  # a static member may have come back with others
    if value.members and group.state is GroupState.COMPLETING_REBALANCE:
        group.become(GroupState.STABLE, now_ms)
    elif not group.members and group.state is GroupState.PREPARING_REBALANCE:
        group.become(GroupState.EMPTY, now_ms)


def _rebuild(group_id: str, value: GroupMetadataValue, now_ms: int) -> ClassicGroup:
    """The group as the record alone tells it. Sessions start when the shard is loaded."""
    group = ClassicGroup(group_id, now_ms)
    group.stored = value
    group.generation = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol = value.protocol
    group.leader = value.leader if value.leader in {m.member_id for m in value.members} else None
    for stored in value.members:
        group.add(_member(group_id, stored, value.protocol or ""))
    group.state = GroupState.STABLE if value.members else GroupState.EMPTY
    if value.current_state_timestamp >= 0:
        group.state_since_ms = value.current_state_timestamp
    group.learn_subscriptions()
    return group


def _member(group_id: str, stored: MemberMetadata, protocol: str) -> Member:
    """Of what a member speaks only the chosen protocol is stored; the rest it tells when it rejoins."""
    no_rebalance_timeout = stored.rebalance_timeout == -1  # value version 0
    return Member(
        member_id=stored.member_id,
        group_instance_id=stored.group_instance_id,
        client_id=stored.client_id,
        client_host=stored.client_host,
        rebalance_timeout_ms=stored.session_timeout if no_rebalance_timeout else stored.rebalance_timeout,
        session_timeout_ms=stored.session_timeout,
        protocols=((protocol, bytes(stored.subscription)),),
        session=Timer(TimerKind.SESSION, group_id, stored.member_id),
        assignment=bytes(stored.assignment),
    )
