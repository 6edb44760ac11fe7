"""Members leave or are removed, after which the group may change to another protocol."""

from collections.abc import Sequence
from dataclasses import replace

from odradek.coordinator.groups.consumer import records
from odradek.coordinator.groups.consumer.arrival import static_member, unknown_member
from odradek.coordinator.groups.consumer.draft import Draft
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.groups.consumer.member import ConsumerMember
from odradek.coordinator.groups.consumer.member_state import JOIN_EPOCH, STATIC_LEAVE_EPOCH
from odradek.coordinator.groups.consumer.metadata import raise_epoch
from odradek.coordinator.groups.consumer.table import ConsumerTable
from odradek.coordinator.groups.consumer.timer_kinds import ConsumerTimer
from odradek.coordinator.groups.decision import Decision
from odradek.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse


def leave(
    table: ConsumerTable, request: ConsumerGroupHeartbeatRequest, decision: Decision
) -> ConsumerGroupHeartbeatResponse:
    """Remove a member that leaves; a static one may keep its partitions until its session ends.

    Raises:
        RefusedError: GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.
    """
    group = table.groups.get(request.group_id)
    if group is None:
        raise table.conversion.not_found(request.group_id)
    if request.instance_id is None:
        member = group.members.get(request.member_id)
        if member is None:
            raise unknown_member(group, request.member_id)
    else:
        member = static_member(group, request.instance_id, request.member_id)
    if request.instance_id is not None and request.member_epoch == STATIC_LEAVE_EPOCH:
        away = replace(member, epoch=STATIC_LEAVE_EPOCH, assigned=member.held_since(JOIN_EPOCH), revoking={})
        decision.record(records.current_record(group.group_id, away))
        table.disarm(ConsumerTimer.REBALANCE, group.group_id, member.member_id)  # it holds nothing to release now
    else:
        fence(table, group, [member], decision)
    return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)


def fence(table: ConsumerTable, group: ConsumerGroup, members: Sequence[ConsumerMember], decision: Decision) -> None:
    """Remove members, and regular expressions that only they used, and raise the group epoch.

    If only classic members remain, the group is converted to a classic group instead, if the configs allow it.
    """
    removed = [member.member_id for member in members]
    if table.conversion.downgrade(group, removed, decision):
        return
    draft = Draft(group, decision)
    for member_id in removed:
        draft.write(*records.member_tombstones(group.group_id, member_id))
        table.disarm_member(group.group_id, member_id)
    used = draft.group.subscribed_regexes()
    for regex in [regex for regex in draft.group.regexes if regex not in used]:
        draft.write(records.regex_tombstone(group.group_id, regex))
    raise_epoch(table, draft, forced=True)
