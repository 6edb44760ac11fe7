"""Applies records to the classic groups: the only code that changes their durable state."""

from odradek.coordinator.contract import ShardRecord
from odradek.coordinator.groups.classic.group import ClassicGroup, Member
from odradek.coordinator.groups.classic.records import decode_group
from odradek.coordinator.groups.classic.states import GroupState
from odradek.coordinator.groups.classic.table import ClassicTable
from odradek.coordinator.groups.classic.timer_kinds import ClassicTimer
from odradek.coordinator.timers import Timer
from odradek.wire.stored.group_records import GroupMetadataValue, MemberMetadata


def replay_classic(table: ClassicTable, group_id: str, record: ShardRecord, now_ms: int) -> None:
    """Apply a record of the classic group `group_id`."""
    if record.value is None:
        remove_group(table, group_id, now_ms)
    else:
        _replay_group(table, group_id, decode_group(record.value), now_ms)


def remove_group(table: ClassicTable, group_id: str, now_ms: int) -> None:
    """Remove the group of this id, if there is one, and cancel its timers."""
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
    """True if an operation created this record from the working copy, so that both have the same generation."""
    same_members = not value.members or [m.member_id for m in value.members] == list(group.members)
    return value.generation == group.generation and same_members


def _finish(group: ClassicGroup, value: GroupMetadataValue, now_ms: int) -> None:
    """Apply a record of the working copy. The first record of a new group leaves it Empty, or rebalancing."""
    group.stored = value
    for stored in value.members:
        group.members[stored.member_id].assign(bytes(stored.assignment))
    if value.members:
        group.read_subscriptions()  # a static member may have rejoined with another subscription
    if value.members and group.state is GroupState.COMPLETING_REBALANCE:
        group.become(GroupState.STABLE, now_ms)
    elif not group.members and group.state is GroupState.PREPARING_REBALANCE:
        group.become(GroupState.EMPTY, now_ms)


def _rebuild(group_id: str, value: GroupMetadataValue, now_ms: int) -> ClassicGroup:
    """Returns the group according to the record alone. Sessions start when the shard is loaded."""
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
    group.read_subscriptions()
    return group


def _member(group_id: str, stored: MemberMetadata, protocol: str) -> Member:
    """Returns a stored member. Only the selected protocol is stored; a rejoin adds the others."""
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
        last_assignment=bytes(stored.assignment),
    )
