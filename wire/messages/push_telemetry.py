"""PushTelemetry, API 72: version 0, flexible from 0."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, field
from odradek.wire.schema.types import ZERO_UUID, Buffer


class PushTelemetryRequest(Message, kind="request", api_key=72, versions="0", flexible="0+"):
    """Request of API 72, version 0."""

    client_instance_id: UUID = field(types.uuid, default=ZERO_UUID)
    subscription_id: int = field(types.int32, default=0)
    terminating: bool = field(types.boolean, default=False)
    compression_type: int = field(types.int8, default=0)
    metrics: Buffer = field(types.data, default=b"")


class PushTelemetryResponse(Message, kind="response", api_key=72, versions="0", flexible="0+"):
    """Response of API 72, version 0."""

    throttle_time_ms: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
