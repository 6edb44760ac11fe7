"""SyncGroup, API 14: versions 0 to 5, flexible from 4."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import Buffer


class SyncGroupRequestAssignment(Struct):
    """An element of ``SyncGroupRequest.assignments``."""

    member_id: str = field(types.string, default="")
    assignment: Buffer = field(types.data, default=b"")


class SyncGroupRequest(Message, kind="request", api_key=14, versions="0-5", flexible="4+"):
    """Request of API 14, versions 0 to 5."""

    group_id: str = field(types.string, default="")
    generation_id: int = field(types.int32, default=0)
    member_id: str = field(types.string, default="")
    group_instance_id: str | None = field(types.string, versions="3+", nullable="3+", default=None)
    protocol_type: str | None = field(types.string, versions="5+", nullable="5+", ignorable=True, default=None)
    protocol_name: str | None = field(types.string, versions="5+", nullable="5+", ignorable=True, default=None)
    assignments: tuple[SyncGroupRequestAssignment, ...] = field(types.array(SyncGroupRequestAssignment), default=())


class SyncGroupResponse(Message, kind="response", api_key=14, versions="0-5", flexible="4+"):
    """Response of API 14, versions 0 to 5."""

    throttle_time_ms: int = field(types.int32, versions="1+", ignorable=True, default=0)
    error_code: int = field(types.int16, default=0)
    protocol_type: str | None = field(types.string, versions="5+", nullable="5+", ignorable=True, default=None)
    protocol_name: str | None = field(types.string, versions="5+", nullable="5+", ignorable=True, default=None)
    assignment: Buffer = field(types.data, default=b"")
