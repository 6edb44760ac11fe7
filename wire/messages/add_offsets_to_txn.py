"""AddOffsetsToTxn, API 25: versions 0 to 4, flexible from 3."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, field


class AddOffsetsToTxnRequest(Message, kind="request", api_key=25, versions="0-4", flexible="3+"):
    """Request of API 25, versions 0 to 4."""

    transactional_id: str = field(types.string, default="")
    producer_id: int = field(types.int64, default=0)
    producer_epoch: int = field(types.int16, default=0)
    group_id: str = field(types.string, default="")


class AddOffsetsToTxnResponse(Message, kind="response", api_key=25, versions="0-4", flexible="3+"):
    """Response of API 25, versions 0 to 4."""

    throttle_time_ms: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
