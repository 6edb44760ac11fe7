"""Heartbeat, API 12: versions 0 to 4, flexible from 4."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, field


class HeartbeatRequest(Message, kind="request", api_key=12, versions="0-4", flexible="4+"):
    """Request of API 12, versions 0 to 4."""

    group_id: str = field(types.string, default="")
    generation_id: int = field(types.int32, default=0)
    member_id: str = field(types.string, default="")
    group_instance_id: str | None = field(types.string, versions="3+", nullable="3+", default=None)


class HeartbeatResponse(Message, kind="response", api_key=12, versions="0-4", flexible="4+"):
    """Response of API 12, versions 0 to 4."""

    throttle_time_ms: int = field(types.int32, versions="1+", ignorable=True, default=0)
    error_code: int = field(types.int16, default=0)
