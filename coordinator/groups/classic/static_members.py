"""Static members (KIP-345): a process that restarts replaces the member of its instance id under a new member id."""

from odradek.coordinator.groups.classic.group import ClassicGroup, Member
from odradek.coordinator.groups.classic.rebalance import keep_alive
from odradek.coordinator.groups.classic.responses import refuse_join, refuse_sync
from odradek.coordinator.groups.classic.table import ClassicTable
from odradek.coordinator.groups.classic.timer_kinds import ClassicTimer
from odradek.coordinator.groups.decision import Decision
from odradek.coordinator.timers import Timer
from odradek.wire.errors import ErrorCode


def replace_static_member(
    table: ClassicTable, group: ClassicGroup, old_member_id: str, new_member_id: str, decision: Decision
) -> tuple[Member, str | None]:
    """Replace the static member `old_member_id`; the new one keeps its assignment and leadership.

    Held requests of the old id get FENCED_INSTANCE_ID. Returns the new member, and the previous leader.
    """
    old = group.members[old_member_id]
    old_leader = group.leader
    _fence(group, old_member_id, decision)
    table.timers.cancel(old.session)
    member = Member(
        member_id=new_member_id,
        group_instance_id=old.group_instance_id,
        client_id=old.client_id,
        client_host=old.client_host,
        rebalance_timeout_ms=old.rebalance_timeout_ms,
        session_timeout_ms=old.session_timeout_ms,
        protocols=old.protocols,
        session=Timer(ClassicTimer.SESSION, group.group_id, new_member_id),
        assignment=old.assignment,
        last_assignment=old.last_assignment,
    )
    group.replace(old_member_id, member)
    keep_alive(table, member, decision.now_ms)
    return member, old_leader


def _fence(group: ClassicGroup, member_id: str, decision: Decision) -> None:
    join_waiter = group.joining.pop(member_id, None)
    if join_waiter is not None:
        refuse_join(decision, join_waiter, ErrorCode.FENCED_INSTANCE_ID, member_id)
    sync_waiter = group.syncing.pop(member_id, None)
    if sync_waiter is not None:
        refuse_sync(decision, sync_waiter, ErrorCode.FENCED_INSTANCE_ID)
