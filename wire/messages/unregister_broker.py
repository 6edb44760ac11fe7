"""UnregisterBroker, API 64: version 0, flexible from 0."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, field


class UnregisterBrokerRequest(Message, kind="request", api_key=64, versions="0", flexible="0+"):
    """Request of API 64, version 0."""

    broker_id: int = field(types.int32, default=0)


class UnregisterBrokerResponse(Message, kind="response", api_key=64, versions="0", flexible="0+"):
    """Response of API 64, version 0."""

    throttle_time_ms: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default="")
