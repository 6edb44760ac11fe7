"""LeaveGroup, API 13: versions 0 to 5, flexible from 4."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field


class MemberIdentity(Struct):
    """An element of ``LeaveGroupRequest.members``."""

    member_id: str = field(types.string, versions="3+", default="")
    group_instance_id: str | None = field(types.string, versions="3+", nullable="3+", default=None)
    reason: str | None = field(types.string, versions="5+", nullable="5+", ignorable=True, default=None)


class LeaveGroupRequest(Message, kind="request", api_key=13, versions="0-5", flexible="4+"):
    """Request of API 13, versions 0 to 5."""

    group_id: str = field(types.string, default="")
    member_id: str = field(types.string, versions="0-2", default="")
    members: tuple[MemberIdentity, ...] = field(types.array(MemberIdentity), versions="3+", default=())


class MemberResponse(Struct):
    """An element of ``LeaveGroupResponse.members``."""

    member_id: str = field(types.string, versions="3+", default="")
    group_instance_id: str | None = field(types.string, versions="3+", nullable="3+", default="")
    error_code: int = field(types.int16, versions="3+", default=0)


class LeaveGroupResponse(Message, kind="response", api_key=13, versions="0-5", flexible="4+"):
    """Response of API 13, versions 0 to 5."""

    throttle_time_ms: int = field(types.int32, versions="1+", ignorable=True, default=0)
    error_code: int = field(types.int16, default=0)
    members: tuple[MemberResponse, ...] = field(types.array(MemberResponse), versions="3+", default=())
