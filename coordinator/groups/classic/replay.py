"""Applies records to the classic groups: the only place where their durable state changes."""

from odradek.coordinator.contract import ShardRecord
from odradek.coordinator.groups.classic.group import ClassicGroup, Member
from odradek.coordinator.groups.classic.records import decode_group
from odradek.coordinator.groups.classic.states import GroupState
from odradek.coordinator.groups.classic.table import ClassicTable
from odradek.coordinator.groups.classic.timer_kinds import ClassicTimer
from odradek.coordinator.timers import Timer
from odradek.wire.stored.group_records import GroupMetadataValue, MemberMetadata


def replay_classic(table: ClassicTable, group_id: str, record: ShardRecord, now_ms: int) -> None:
    """Apply a record about the classic group `group_id`."""
    if record.value is None:
        remove_group(table, group_id, now_ms)
    else:
        _replay_group(table, group_id, decode_group(record.value), now_ms)


def remove_group(table: ClassicTable, group_id: str, now_ms: int) -> None:
    """Remove a group, if there is one of this id: it is Dead."""
    group = table.groups.pop(group_id, None)
    if group is not None:
        table.cancel_timers(group)
        group.become(GroupState.DEAD, now_ms)


def _replay_group(table: ClassicTable, group_id: str, value: GroupMetadataValue, now_ms: int) -> None:
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
        session=Timer(ClassicTimer.SESSION, group_id, stored.member_id),
        assignment=bytes(stored.assignment),
    )
