"""JoinGroup, API 11: versions 0 to 9, flexible from 6."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import Buffer


class JoinGroupRequestProtocol(Struct):
    """An element of ``JoinGroupRequest.protocols``."""

    name: str = field(types.string, default="")
    metadata: Buffer = field(types.data, default=b"")


class JoinGroupRequest(Message, kind="request", api_key=11, versions="0-9", flexible="6+"):
    """Request of API 11, versions 0 to 9."""

    group_id: str = field(types.string, default="")
    session_timeout_ms: int = field(types.int32, default=0)
    rebalance_timeout_ms: int = field(types.int32, versions="1+", ignorable=True, default=-1)
    member_id: str = field(types.string, default="")
    group_instance_id: str | None = field(types.string, versions="5+", nullable="5+", default=None)
    protocol_type: str = field(types.string, default="")
    protocols: tuple[JoinGroupRequestProtocol, ...] = field(types.array(JoinGroupRequestProtocol), default=())
    reason: str | None = field(types.string, versions="8+", nullable="8+", ignorable=True, default=None)


class JoinGroupResponseMember(Struct):
    """An element of ``JoinGroupResponse.members``."""

    member_id: str = field(types.string, default="")
    group_instance_id: str | None = field(types.string, versions="5+", nullable="5+", ignorable=True, default=None)
    metadata: Buffer = field(types.data, default=b"")


class JoinGroupResponse(Message, kind="response", api_key=11, versions="0-9", flexible="6+"):
    """Response of API 11, versions 0 to 9."""

    throttle_time_ms: int = field(types.int32, versions="2+", ignorable=True, default=0)
    error_code: int = field(types.int16, default=0)
    generation_id: int = field(types.int32, default=-1)
    protocol_type: str | None = field(types.string, versions="7+", nullable="7+", ignorable=True, default=None)
    protocol_name: str | None = field(types.string, nullable="7+", default="")
    leader: str = field(types.string, default="")
    skip_assignment: bool = field(types.boolean, versions="9+", default=False)
    member_id: str = field(types.string, default="")
    members: tuple[JoinGroupResponseMember, ...] = field(types.array(JoinGroupResponseMember), default=())
