"""EndTxn, API 26: versions 0 to 5, flexible from 3."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, field


class EndTxnRequest(Message, kind="request", api_key=26, versions="0-5", flexible="3+"):
    """Request of API 26, versions 0 to 5."""

    transactional_id: str = field(types.string, default="")
    producer_id: int = field(types.int64, default=0)
    producer_epoch: int = field(types.int16, default=0)
    committed: bool = field(types.boolean, default=False)


class EndTxnResponse(Message, kind="response", api_key=26, versions="0-5", flexible="3+"):
    """Response of API 26, versions 0 to 5."""

    throttle_time_ms: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    producer_id: int = field(types.int64, versions="5+", ignorable=True, default=-1)
    producer_epoch: int = field(types.int16, versions="5+", ignorable=True, default=-1)
