"""Responses to JoinGroup and SyncGroup that several operations send."""

from odradek.coordinator.contract import Token
from odradek.coordinator.groups.classic.group import ClassicGroup, JoinWaiter
from odradek.coordinator.groups.decision import Decision
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from odradek.wire.messages.sync_group import SyncGroupResponse

NULLABLE_PROTOCOL_NAME_VERSION = 7
"""From this version of JoinGroup on a refusal has null, not "", as the protocol's name."""


def refusals_protocol_name(api_version: int) -> str | None:
    """Returns the protocol name in the response to a refused JoinGroup."""
    return None if api_version >= NULLABLE_PROTOCOL_NAME_VERSION else ""


def refuse_join(decision: Decision, waiter: JoinWaiter, error: ErrorCode, member_id: str) -> None:
    """Reply to a JoinGroup with `error`; `member_id` is the id that the client should use."""
    name = refusals_protocol_name(waiter.api_version)
    decision.reply(waiter.token, JoinGroupResponse(error_code=error, member_id=member_id, protocol_name=name))


def join_reply(
    group: ClassicGroup,
    member_id: str,
    *,
    leader: str | None = None,
    with_members: bool = False,
    skip_assignment: bool = False,
) -> JoinGroupResponse:
    """Returns the current generation for `member_id`; the leader's reply lists the members."""
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol or "",
        leader=leader or group.leader or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=_members(group) if with_members else (),
    )


def _members(group: ClassicGroup) -> tuple[JoinGroupResponseMember, ...]:
    return tuple(
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            metadata=member.metadata(group.protocol),
        )
        for member in group.members.values()
    )


def refuse_sync(decision: Decision, token: Token, error: ErrorCode) -> None:
    """Reply to a SyncGroup with `error`."""
    decision.reply(token, SyncGroupResponse(error_code=error))


def sync_reply(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    """Returns a member's assignment in the current generation."""
    return SyncGroupResponse(protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=assignment)
