"""SyncGroup, versions 0 to 5: the leader sends the assignments, the other members wait for theirs."""

from odradek.coordinator.contract import Token
from odradek.coordinator.groups.classic.generation import group_record
from odradek.coordinator.groups.classic.group import ClassicGroup
from odradek.coordinator.groups.classic.rebalance import keep_alive, prepare_rebalance
from odradek.coordinator.groups.classic.responses import refuse_sync, sync_reply
from odradek.coordinator.groups.classic.states import GroupState
from odradek.coordinator.groups.classic.table import ClassicTable
from odradek.coordinator.groups.decision import ClientInfo, Decision
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.sync_group import SyncGroupRequest

PROTOCOL_VERSION = 5
"""From this version on a request must contain the protocol type and the selected protocol (KIP-559)."""


def sync_group(
    table: ClassicTable, request: SyncGroupRequest, client: ClientInfo, token: Token, decision: Decision
) -> None:
    """Reply with the member's assignment, at once or when the leader has sent it."""
    group = table.groups.get(request.group_id)
    error = _check(group, request, client.api_version)
    if error or group is None:
        refuse_sync(decision, token, error)
        return
    group.unsynced.pop(request.member_id, None)
    if not group.unsynced:
        table.timers.cancel(group.sync_timer)
    if group.state is GroupState.STABLE:
        member = group.members[request.member_id]
        keep_alive(table, member, decision.now_ms)
        decision.reply(token, sync_reply(group, member.assignment))
        return
    _hold_sync(group, request.member_id, token, decision)
    if group.leader == request.member_id:
        _finish_generation(table, group, request, decision)


def _check(group: ClassicGroup | None, request: SyncGroupRequest, api_version: int) -> ErrorCode:
    if lacks_protocol(request, api_version):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.check_member(request.member_id, request.group_instance_id)
    if error:
        return error
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differ(request.protocol_type, group.protocol_type) or _differ(request.protocol_name, group.protocol):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    preparing = group.state is GroupState.PREPARING_REBALANCE
    return ErrorCode.REBALANCE_IN_PROGRESS if preparing else ErrorCode.NONE


def lacks_protocol(request: SyncGroupRequest, api_version: int) -> bool:
    """True if the request has no protocol although its version requires it."""
    return api_version >= PROTOCOL_VERSION and (request.protocol_type is None or request.protocol_name is None)


def _differ(claimed: str | None, actual: str | None) -> bool:
    return claimed is not None and actual is not None and claimed != actual


def _hold_sync(group: ClassicGroup, member_id: str, token: Token, decision: Decision) -> None:
    # As for JoinGroup: a client repeats a request when its first connection is closed, so only the newest is kept.
    superseded = group.syncing.pop(member_id, None)
    if superseded is not None:
        refuse_sync(decision, superseded, ErrorCode.REBALANCE_IN_PROGRESS)
    group.syncing[member_id] = token


def _finish_generation(table: ClassicTable, group: ClassicGroup, request: SyncGroupRequest, decision: Decision) -> None:
    """Write the generation; its replay makes the group Stable. Members that the leader omits get nothing."""
    given = {entry.member_id: bytes(entry.assignment) for entry in request.assignments}
    assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
    decision.record(group_record(group, assignments, group.state_since_ms))
    for member_id, token in group.syncing.items():
        decision.reply(token, sync_reply(group, assignments[member_id]))
        keep_alive(table, group.members[member_id], decision.now_ms)
    group.syncing.clear()


def generation_refused(table: ClassicTable, group_id: str, now_ms: int) -> None:
    """Begin another rebalance, as Kafka does, if the log has refused the generation that the leader's SyncGroup ended.

    Its members have their error. Without a rebalance they would wait in a generation that never becomes stable.
    """
    group = table.groups.get(group_id)
    if group is None or group.state is not GroupState.COMPLETING_REBALANCE or group.leader in group.unsynced:
        return
    decision = Decision(now_ms)
    prepare_rebalance(table, group, decision)
    assert not decision.outcome().records, "nobody has joined yet, and nobody waits"
