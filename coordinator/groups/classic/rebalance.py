"""Rebalances: members are added and removed, join phases begin and end.

Every operation that changes the members of a group uses these functions, which add their decisions to a `Decision`. The
theory is in `states`.
"""

from odradek.coordinator.groups.classic.generation import group_record
from odradek.coordinator.groups.classic.group import ClassicGroup, JoinWaiter, Member
from odradek.coordinator.groups.classic.responses import join_reply, refuse_join, refuse_sync
from odradek.coordinator.groups.classic.states import GroupState
from odradek.coordinator.groups.classic.table import ClassicTable
from odradek.coordinator.groups.classic.timer_kinds import ClassicTimer
from odradek.coordinator.groups.decision import Decision
from odradek.coordinator.timers import Timer
from odradek.wire.errors import ErrorCode

# Members


def keep_alive(table: ClassicTable, member: Member, now_ms: int) -> None:
    """Restart the session of `member`: it ends one session time-out from now."""
    table.timers.set(member.session, now_ms + member.session_timeout_ms)


def add_pending(
    table: ClassicTable, group: ClassicGroup, member_id: str, session_timeout_ms: int, decision: Decision
) -> None:
    """Add a member id returned to a client, which must join with it within its session time-out (KIP-394)."""
    timer = group.pending[member_id] = Timer(ClassicTimer.SESSION, group.group_id, member_id)
    table.timers.set(timer, decision.now_ms + session_timeout_ms)


def remove_pending(table: ClassicTable, group: ClassicGroup, member_id: str) -> None:
    """Remove a member id that was returned to a client and has not joined; do nothing for any other."""
    timer = group.pending.pop(member_id, None)
    if timer is not None:
        table.timers.cancel(timer)


def remove_member(table: ClassicTable, group: ClassicGroup, member_id: str, decision: Decision) -> None:
    """Remove a member, if it is one. Its held requests get UNKNOWN_MEMBER_ID, so that it joins again."""
    member = group.members.get(member_id)
    if member is None:
        return
    table.timers.cancel(member.session)
    join_waiter, sync_waiter = group.joining.get(member_id), group.syncing.get(member_id)
    group.remove(member_id)
    if join_waiter is not None:
        refuse_join(decision, join_waiter, ErrorCode.UNKNOWN_MEMBER_ID, "")
    if sync_waiter is not None:
        refuse_sync(decision, sync_waiter, ErrorCode.UNKNOWN_MEMBER_ID)


def hold_join(group: ClassicGroup, member_id: str, waiter: JoinWaiter, decision: Decision) -> None:
    """Hold the member's JoinGroup until the join phase ends."""
    # A repeated request means that the client's first connection is probably closed. Kafka drops the first request
    # without a reply; here it gets one, in case the connection is still open.
    superseded = group.joining.pop(member_id, None)
    if superseded is not None:
        refuse_join(decision, superseded, ErrorCode.REBALANCE_IN_PROGRESS, member_id)
    group.joining[member_id] = waiter


# The join phase


def rebalance_or_complete(table: ClassicTable, group: ClassicGroup, decision: Decision) -> None:
    """Begin a rebalance if none is in progress, else end the join phase if all members have joined."""
    if group.can_rebalance():
        prepare_rebalance(table, group, decision)
    else:
        complete_join_if_ready(table, group, decision)


def prepare_rebalance(table: ClassicTable, group: ClassicGroup, decision: Decision) -> None:
    """Begin a join phase. The first one of an empty group is delayed, so that more members can join (KIP-134)."""
    if group.state is GroupState.COMPLETING_REBALANCE:
        _abandon_generation(table, group, decision)
    group.unsynced.clear()
    table.timers.cancel(group.sync_timer)
    group.initial_rebalance = group.state is GroupState.EMPTY
    group.become(GroupState.PREPARING_REBALANCE, decision.now_ms)
    if group.initial_rebalance:
        _schedule_initial_delay(table, group, decision)
    elif group.has_all_joined():
        complete_join(table, group, decision)
    else:
        table.timers.set(group.join_timer, decision.now_ms + group.rebalance_timeout_ms())


def complete_join_if_ready(table: ClassicTable, group: ClassicGroup, decision: Decision) -> None:
    """End the join phase if all members have joined; an initial rebalance waits for its delay."""
    preparing = group.state is GroupState.PREPARING_REBALANCE
    if preparing and not group.initial_rebalance and group.has_all_joined():
        complete_join(table, group, decision)


def complete_join(table: ClassicTable, group: ClassicGroup, decision: Decision) -> None:
    """End the join phase with the members that have joined; dynamic members that have not are removed."""
    assert group.state is GroupState.PREPARING_REBALANCE, f"{group.group_id} is {group.state}"
    table.timers.cancel(group.join_timer)
    for member in list(group.members.values()):
        if member.group_instance_id is None and member.member_id not in group.joining:
            remove_member(table, group, member.member_id, decision)
    if not group.members:
        _write_empty_generation(group, decision)
    elif group.elect_joined_leader():
        _start_generation(table, group, decision)
    else:
        # Only static members remain and none has joined: wait until one joins or their sessions end. At least 1 ms,
        # since `on_time` fires timers until none is due, and a rebalance time-out may be 0.
        table.timers.set(group.join_timer, decision.now_ms + max(group.rebalance_timeout_ms(), 1))


def _start_generation(table: ClassicTable, group: ClassicGroup, decision: Decision) -> None:
    group.generation += 1
    group.protocol = group.select_protocol()
    group.read_subscriptions()
    group.become(GroupState.COMPLETING_REBALANCE, decision.now_ms)
    for member_id, member in group.members.items():
        waiter = group.joining.get(member_id)
        if waiter is not None:
            reply = join_reply(group, member_id, with_members=member_id == group.leader)
            decision.reply(waiter.token, reply)
        keep_alive(table, member, decision.now_ms)
        member.is_new = False
    group.joining.clear()
    group.unsynced = dict.fromkeys(group.members)
    table.timers.set(group.sync_timer, decision.now_ms + group.rebalance_timeout_ms())


def _write_empty_generation(group: ClassicGroup, decision: Decision) -> None:
    group.generation += 1
    group.protocol = None
    group.read_subscriptions()
    decision.record(group_record(group, {}, decision.now_ms))


def _abandon_generation(table: ClassicTable, group: ClassicGroup, decision: Decision) -> None:
    for member_id, token in group.syncing.items():
        refuse_sync(decision, token, ErrorCode.REBALANCE_IN_PROGRESS)
        keep_alive(table, group.members[member_id], decision.now_ms)
    group.syncing.clear()
    for member in group.members.values():
        member.assignment = b""


# The initial delay


def _schedule_initial_delay(table: ClassicTable, group: ClassicGroup, decision: Decision) -> None:
    group.new_member_added = False
    group.delay_ms = table.config.group_initial_rebalance_delay_ms
    group.remaining_delay_ms = max(group.rebalance_timeout_ms() - group.delay_ms, 0)
    table.timers.set(group.join_timer, decision.now_ms + group.delay_ms)


def extend_initial_delay_or_complete(table: ClassicTable, group: ClassicGroup, decision: Decision) -> None:
    """Called when the initial delay has passed: it is extended while members join, up to the rebalance time-out."""
    if not group.new_member_added or group.remaining_delay_ms == 0:
        complete_join(table, group, decision)
        return
    group.new_member_added = False
    remaining_ms = group.remaining_delay_ms
    group.remaining_delay_ms = max(remaining_ms - group.delay_ms, 0)
    group.delay_ms = min(table.config.group_initial_rebalance_delay_ms, remaining_ms)
    table.timers.set(group.join_timer, decision.now_ms + group.delay_ms)
