"""BrokerHeartbeat, API 63: versions 0 to 2, flexible from 0."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, field


class BrokerHeartbeatRequest(Message, kind="request", api_key=63, versions="0-2", flexible="0+"):
    """Request of API 63, versions 0 to 2."""

    broker_id: int = field(types.int32, default=0)
    broker_epoch: int = field(types.int64, default=-1)
    current_metadata_offset: int = field(types.int64, default=0)
    want_fence: bool = field(types.boolean, default=False)
    want_shut_down: bool = field(types.boolean, default=False)
    offline_log_dirs: tuple[UUID, ...] = field(types.array(types.uuid), versions="1+", tag=0, default=())
    cordoned_log_dirs: tuple[UUID, ...] | None = field(
        types.array(types.uuid), versions="2+", nullable="2+", tag=1, default=None
    )


class BrokerHeartbeatResponse(Message, kind="response", api_key=63, versions="0-2", flexible="0+"):
    """Response of API 63, versions 0 to 2."""

    throttle_time_ms: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    is_caught_up: bool = field(types.boolean, default=False)
    is_fenced: bool = field(types.boolean, default=True)
    should_shut_down: bool = field(types.boolean, default=False)
