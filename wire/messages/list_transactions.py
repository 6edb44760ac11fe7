"""ListTransactions, API 66: versions 0 to 2, flexible from 0."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field


class ListTransactionsRequest(Message, kind="request", api_key=66, versions="0-2", flexible="0+"):
    """Request of API 66, versions 0 to 2."""

    state_filters: tuple[str, ...] = field(types.array(types.string), default=())
    producer_id_filters: tuple[int, ...] = field(types.array(types.int64), default=())
    duration_filter: int = field(types.int64, versions="1+", default=-1)
    transactional_id_pattern: str | None = field(types.string, versions="2+", nullable="2+", default=None)


class TransactionState(Struct):
    """An element of ``ListTransactionsResponse.transaction_states``."""

    transactional_id: str = field(types.string, default="")
    producer_id: int = field(types.int64, default=0)
    transaction_state: str = field(types.string, default="")


class ListTransactionsResponse(Message, kind="response", api_key=66, versions="0-2", flexible="0+"):
    """Response of API 66, versions 0 to 2."""

    throttle_time_ms: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    unknown_state_filters: tuple[str, ...] = field(types.array(types.string), default=())
    transaction_states: tuple[TransactionState, ...] = field(types.array(TransactionState), default=())
