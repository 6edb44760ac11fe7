"""Members leave, or are given up: one way for both, which may turn the group back into a classic one."""

from collections.abc import Sequence
from dataclasses import replace

from odradek.coordinator.groups.consumer import records
from odradek.coordinator.groups.consumer.arrival import static_member, unknown_member
from odradek.coordinator.groups.consumer.draft import Draft
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.groups.consumer.member import ConsumerMember
from odradek.coordinator.groups.consumer.member_state import JOIN_EPOCH, STATIC_LEAVE_EPOCH, MemberState
from odradek.coordinator.groups.consumer.metadata import raise_epoch
from odradek.coordinator.groups.consumer.regexes import resolve_regexes
from odradek.coordinator.groups.decision import Decision
from odradek.coordinator.groups.migration.convert import can_downgrade, consumer_group, downgrade
from odradek.coordinator.groups.table import GroupTable
from odradek.coordinator.timers import Timer, TimerKind
from odradek.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse


def leave(
    table: GroupTable, request: ConsumerGroupHeartbeatRequest, decision: Decision
) -> ConsumerGroupHeartbeatResponse:
    """A member leaves; a static one may keep its place until its session ends. Raises RefusedError."""
    group = consumer_group(table, request.group_id)
    if request.instance_id is None:
        member = group.members.get(request.member_id)
        if member is None:
            raise unknown_member(group, request.member_id)
    else:
        member = static_member(group, request.instance_id, request.member_id)
    if request.instance_id is not None and request.member_epoch == STATIC_LEAVE_EPOCH:
        away = replace(member, epoch=STATIC_LEAVE_EPOCH, assigned=member.held_since(JOIN_EPOCH), revoking={})
        decision.record(records.current_record(group.group_id, away))
    else:
        fence(table, group, [member], decision)
    return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)


def fence(table: GroupTable, group: ConsumerGroup, members: Sequence[ConsumerMember], decision: Decision) -> None:
    """Remove members, and what only they needed; the others' target will be computed anew."""
    gone = [member.member_id for member in members]
    if can_downgrade(table, group, gone):
        downgrade(table, group, gone, decision)
        return
    draft = Draft(group, decision)
    for member_id in gone:
        draft.write(*records.member_tombstones(group.group_id, member_id))
        table.consumer.disarm_member(group.group_id, member_id)
    used = draft.group.subscribed_regexes()
    for regex in [regex for regex in draft.group.regexes if regex not in used]:
        draft.write(records.regex_tombstone(group.group_id, regex))
    raise_epoch(table.consumer, draft, forced=True)


# Time


def fire(table: GroupTable, timer: Timer, decision: Decision) -> None:
    """A timer of a consumer group is due: give its member up, or resolve the group's regular expressions."""
    table.consumer.disarm(timer.kind, timer.group_id, timer.member_id)
    group = table.consumer.groups.get(timer.group_id)
    if group is None:
        return
    if timer.kind is TimerKind.CONSUMER_REGEX:
        resolve_regexes(table.consumer, Draft(group, decision))
        return
    member = group.members.get(timer.member_id)
    if member is not None and _is_overdue(member, timer.kind):
        fence(table, group, [member], decision)


def _is_overdue(member: ConsumerMember, kind: TimerKind) -> bool:
    return kind is not TimerKind.CONSUMER_REBALANCE or member.state is MemberState.UNREVOKED_PARTITIONS


def start_timers(table: GroupTable, now_ms: int) -> None:
    """After loading, every session starts anew, and so does the time to give partitions up."""
    consumer = table.consumer
    for group in consumer.groups.values():
        session_ms = consumer.session_timeout_ms(group.group_id)
        for member in group.members.values():
            own_ms = session_ms if member.classic is None else member.classic.session_timeout_ms
            consumer.arm(TimerKind.CONSUMER_SESSION, group.group_id, member.member_id, now_ms + own_ms)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                deadline_ms = now_ms + member.rebalance_timeout_ms
                consumer.arm(TimerKind.CONSUMER_REBALANCE, group.group_id, member.member_id, deadline_ms)
