"""DescribeTransactions, API 65: version 0, flexible from 0."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field


class DescribeTransactionsRequest(Message, kind="request", api_key=65, versions="0", flexible="0+"):
    """Request of API 65, version 0."""

    transactional_ids: tuple[str, ...] = field(types.array(types.string), default=())


class TopicData(Struct):
    """An element of ``TransactionState.topics``."""

    topic: str = field(types.string, default="")
    partitions: tuple[int, ...] = field(types.array(types.int32), default=())


class TransactionState(Struct):
    """An element of ``DescribeTransactionsResponse.transaction_states``."""

    error_code: int = field(types.int16, default=0)
    transactional_id: str = field(types.string, default="")
    transaction_state: str = field(types.string, default="")
    transaction_timeout_ms: int = field(types.int32, default=0)
    transaction_start_time_ms: int = field(types.int64, default=0)
    producer_id: int = field(types.int64, default=0)
    producer_epoch: int = field(types.int16, default=0)
    topics: tuple[TopicData, ...] = field(types.array(TopicData), default=())


class DescribeTransactionsResponse(Message, kind="response", api_key=65, versions="0", flexible="0+"):
    """Response of API 65, version 0."""

    throttle_time_ms: int = field(types.int32, default=0)
    transaction_states: tuple[TransactionState, ...] = field(types.array(TransactionState), default=())
