"""LeaveGroup, versions 0 to 5: members leave, or an administrator removes members."""

from collections.abc import Sequence

from odradek.coordinator.contract import Token
from odradek.coordinator.groups.classic.group import ClassicGroup
from odradek.coordinator.groups.classic.rebalance import (
    complete_join_if_ready,
    rebalance_or_complete,
    remove_member,
    remove_pending,
)
from odradek.coordinator.groups.classic.states import GroupState
from odradek.coordinator.groups.classic.table import ClassicTable
from odradek.coordinator.groups.decision import ClientInfo, Decision
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse

BATCH_VERSION = 3
"""From this version on a request contains several members, and each gets its own error."""


def leave_group(
    table: ClassicTable, request: LeaveGroupRequest, client: ClientInfo, token: Token, decision: Decision
) -> None:
    """Remove members and rebalance among those left."""
    if not request.group_id:
        decision.reply(token, LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        return
    leaving = members_named(request, client.api_version)
    errors = _leave(table, table.groups.get(request.group_id), leaving, decision)
    decision.reply(token, leave_response(leaving, errors, client.api_version))


def members_named(request: LeaveGroupRequest, api_version: int) -> tuple[MemberIdentity, ...]:
    """Returns the members in the request; before version 3 it is a single one."""
    return request.members if api_version >= BATCH_VERSION else (MemberIdentity(member_id=request.member_id),)


def leave_response(
    leaving: Sequence[MemberIdentity], errors: Sequence[ErrorCode], api_version: int
) -> LeaveGroupResponse:
    """Returns the response with one error for each of the members `leaving`, in the same order."""
    if api_version >= BATCH_VERSION:
        return LeaveGroupResponse(members=tuple(map(_member_response, leaving, errors)))
    return LeaveGroupResponse(error_code=errors[0])


def _leave(
    table: ClassicTable, group: ClassicGroup | None, leaving: tuple[MemberIdentity, ...], decision: Decision
) -> list[ErrorCode]:
    if group is None:
        return [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving)
    errors = [_remove(table, group, identity, decision) for identity in leaving]
    if ErrorCode.NONE in errors:
        _rebalance_without_them(table, group, decision)
    return errors


def _remove(table: ClassicTable, group: ClassicGroup, identity: MemberIdentity, decision: Decision) -> ErrorCode:
    member_id, instance_id = identity.member_id, identity.group_instance_id
    if member_id in group.pending:
        remove_pending(table, group, member_id)
        return ErrorCode.NONE
    if not member_id and instance_id is not None:
        # An administrator knows only the instance id.
        member_id = group.static_members.get(instance_id, "")
    error = group.check_member(member_id, instance_id)
    if not error:
        remove_member(table, group, member_id, decision)
    return error


def _rebalance_without_them(table: ClassicTable, group: ClassicGroup, decision: Decision) -> None:
    if group.state is GroupState.PREPARING_REBALANCE:
        complete_join_if_ready(table, group, decision)
    elif group.state is not GroupState.EMPTY:
        rebalance_or_complete(table, group, decision)


def _member_response(identity: MemberIdentity, error: ErrorCode) -> MemberResponse:
    return MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error)
