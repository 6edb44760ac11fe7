"""The timers of consumer groups: sessions and rebalance time-outs end, regular expressions are resolved."""

from odradek.coordinator.groups.consumer.departure import fence
from odradek.coordinator.groups.consumer.draft import Draft
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.groups.consumer.member import ConsumerMember
from odradek.coordinator.groups.consumer.member_state import STATIC_LEAVE_EPOCH, MemberState
from odradek.coordinator.groups.consumer.regexes import resolve_regexes
from odradek.coordinator.groups.consumer.table import ConsumerTable
from odradek.coordinator.groups.consumer.timer_kinds import ConsumerTimer
from odradek.coordinator.groups.decision import Decision
from odradek.coordinator.timers import Timer, TimerKind


def fire(table: ConsumerTable, timer: Timer, decision: Decision) -> None:
    """Handle one timer that is due: remove its member, or resolve the group's regular expressions."""
    table.disarm(timer.kind, timer.group_id, timer.member_id)
    group = table.groups.get(timer.group_id)
    if group is None:
        return
    if timer.kind is ConsumerTimer.REGEX:
        resolve_regexes(table, Draft(group, decision))
        return
    member = group.members.get(timer.member_id)
    if member is not None and _is_overdue(member, timer.kind):
        fence(table, group, [member], decision)


def _is_overdue(member: ConsumerMember, kind: TimerKind) -> bool:
    return kind is not ConsumerTimer.REBALANCE or _must_release(member)


def _must_release(member: ConsumerMember) -> bool:
    """True if the member must still release partitions. A static member that is away holds none of these any more."""
    return member.state is MemberState.UNREVOKED_PARTITIONS and member.epoch != STATIC_LEAVE_EPOCH


def start_timers(table: ConsumerTable, now_ms: int) -> None:
    """Called once after loading: restart every session and rebalance time-out."""
    for group in table.groups.values():
        start_timers_of(table, group, now_ms)


def start_timers_of(table: ConsumerTable, group: ConsumerGroup, now_ms: int) -> None:
    """Start the sessions and rebalance time-outs of one group that are not running."""
    session_ms = table.session_timeout_ms(group.group_id)
    for member in group.members.values():
        own_ms = session_ms if member.classic is None else member.classic.session_timeout_ms
        _start(table, ConsumerTimer.SESSION, group, member, now_ms + own_ms)
        if _must_release(member):
            _start(table, ConsumerTimer.REBALANCE, group, member, now_ms + member.rebalance_timeout_ms)


def _start(
    table: ConsumerTable, kind: ConsumerTimer, group: ConsumerGroup, member: ConsumerMember, deadline_ms: int
) -> None:
    if not table.is_armed(kind, group.group_id, member.member_id):
        table.arm(kind, group.group_id, member.member_id, deadline_ms)
