"""Heartbeat, versions 0 to 4. It is the most frequent request, so it sets one timer and allocates nothing."""

from odradek.coordinator.groups.classic.rebalance import keep_alive
from odradek.coordinator.groups.classic.states import GroupState
from odradek.coordinator.groups.classic.table import ClassicTable
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.heartbeat import HeartbeatRequest


def heartbeat(table: ClassicTable, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
    """Extend the member's session. REBALANCE_IN_PROGRESS makes it join again."""
    group = table.groups.get(request.group_id)
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID if request.group_id else ErrorCode.INVALID_GROUP_ID
    error = group.check_member(request.member_id, request.group_instance_id)
    if error:
        return error
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    keep_alive(table, group.members[request.member_id], now_ms)
    preparing = group.state is GroupState.PREPARING_REBALANCE
    return ErrorCode.REBALANCE_IN_PROGRESS if preparing else ErrorCode.NONE
