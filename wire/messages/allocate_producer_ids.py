"""AllocateProducerIds, API 67: version 0, flexible from 0."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, field


class AllocateProducerIdsRequest(Message, kind="request", api_key=67, versions="0", flexible="0+"):
    """Request of API 67, version 0."""

    broker_id: int = field(types.int32, default=0)
    broker_epoch: int = field(types.int64, default=-1)


class AllocateProducerIdsResponse(Message, kind="response", api_key=67, versions="0", flexible="0+"):
    """Response of API 67, version 0."""

    throttle_time_ms: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    producer_id_start: int = field(types.int64, default=0)
    producer_id_len: int = field(types.int32, default=0)
