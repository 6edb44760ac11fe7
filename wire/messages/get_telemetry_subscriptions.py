"""GetTelemetrySubscriptions, API 71: version 0, flexible from 0."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, field
from odradek.wire.schema.types import ZERO_UUID


class GetTelemetrySubscriptionsRequest(Message, kind="request", api_key=71, versions="0", flexible="0+"):
    """Request of API 71, version 0."""

    client_instance_id: UUID = field(types.uuid, default=ZERO_UUID)


class GetTelemetrySubscriptionsResponse(Message, kind="response", api_key=71, versions="0", flexible="0+"):
    """Response of API 71, version 0."""

    throttle_time_ms: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    client_instance_id: UUID = field(types.uuid, default=ZERO_UUID)
    subscription_id: int = field(types.int32, default=0)
    accepted_compression_types: tuple[int, ...] = field(types.array(types.int8), default=())
    push_interval_ms: int = field(types.int32, default=0)
    telemetry_max_bytes: int = field(types.int32, default=0)
    delta_temporality: bool = field(types.boolean, default=False)
    requested_metrics: tuple[str, ...] = field(types.array(types.string), default=())
