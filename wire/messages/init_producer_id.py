"""InitProducerId, API 22: versions 0 to 6, flexible from 2."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, field


class InitProducerIdRequest(Message, kind="request", api_key=22, versions="0-6", flexible="2+", unstable=True):
    """Request of API 22, versions 0 to 6."""

    transactional_id: str | None = field(types.string, nullable="0+", default="")
    transaction_timeout_ms: int = field(types.int32, default=0)
    producer_id: int = field(types.int64, versions="3+", default=-1)
    producer_epoch: int = field(types.int16, versions="3+", default=-1)
    enable2_pc: bool = field(types.boolean, versions="6+", default=False)
    keep_prepared_txn: bool = field(types.boolean, versions="6+", default=False)


class InitProducerIdResponse(Message, kind="response", api_key=22, versions="0-6", flexible="2+"):
    """Response of API 22, versions 0 to 6."""

    throttle_time_ms: int = field(types.int32, ignorable=True, default=0)
    error_code: int = field(types.int16, default=0)
    producer_id: int = field(types.int64, default=-1)
    producer_epoch: int = field(types.int16, default=0)
    ongoing_txn_producer_id: int = field(types.int64, versions="6+", default=-1)
    ongoing_txn_producer_epoch: int = field(types.int16, versions="6+", default=-1)
