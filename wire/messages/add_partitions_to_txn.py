"""AddPartitionsToTxn, API 24: versions 0 to 5, flexible from 3."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field


class AddPartitionsToTxnTopic(Struct):
    """An element of ``AddPartitionsToTxnTransaction.topics``."""

    name: str = field(types.string, default="")
    partitions: tuple[int, ...] = field(types.array(types.int32), default=())


class AddPartitionsToTxnTransaction(Struct):
    """An element of ``AddPartitionsToTxnRequest.transactions``."""

    transactional_id: str = field(types.string, versions="4+", default="")
    producer_id: int = field(types.int64, versions="4+", default=0)
    producer_epoch: int = field(types.int16, versions="4+", default=0)
    verify_only: bool = field(types.boolean, versions="4+", default=False)
    topics: tuple[AddPartitionsToTxnTopic, ...] = field(types.array(AddPartitionsToTxnTopic), versions="4+", default=())


class AddPartitionsToTxnRequest(Message, kind="request", api_key=24, versions="0-5", flexible="3+"):
    """Request of API 24, versions 0 to 5."""

    transactions: tuple[AddPartitionsToTxnTransaction, ...] = field(
        types.array(AddPartitionsToTxnTransaction), versions="4+", default=()
    )
    v3_and_below_transactional_id: str = field(types.string, versions="0-3", default="")
    v3_and_below_producer_id: int = field(types.int64, versions="0-3", default=0)
    v3_and_below_producer_epoch: int = field(types.int16, versions="0-3", default=0)
    v3_and_below_topics: tuple[AddPartitionsToTxnTopic, ...] = field(
        types.array(AddPartitionsToTxnTopic), versions="0-3", default=()
    )


class AddPartitionsToTxnPartitionResult(Struct):
    """An element of ``AddPartitionsToTxnTopicResult.results_by_partition``."""

    partition_index: int = field(types.int32, default=0)
    partition_error_code: int = field(types.int16, default=0)


class AddPartitionsToTxnTopicResult(Struct):
    """An element of ``AddPartitionsToTxnResult.topic_results``."""

    name: str = field(types.string, default="")
    results_by_partition: tuple[AddPartitionsToTxnPartitionResult, ...] = field(
        types.array(AddPartitionsToTxnPartitionResult), default=()
    )


class AddPartitionsToTxnResult(Struct):
    """An element of ``AddPartitionsToTxnResponse.results_by_transaction``."""

    transactional_id: str = field(types.string, versions="4+", default="")
    topic_results: tuple[AddPartitionsToTxnTopicResult, ...] = field(
        types.array(AddPartitionsToTxnTopicResult), versions="4+", default=()
    )


class AddPartitionsToTxnResponse(Message, kind="response", api_key=24, versions="0-5", flexible="3+"):
    """Response of API 24, versions 0 to 5."""

    throttle_time_ms: int = field(types.int32, default=0)
    error_code: int = field(types.int16, versions="4+", ignorable=True, default=0)
    results_by_transaction: tuple[AddPartitionsToTxnResult, ...] = field(
        types.array(AddPartitionsToTxnResult), versions="4+", default=()
    )
    results_by_topic_v3_and_below: tuple[AddPartitionsToTxnTopicResult, ...] = field(
        types.array(AddPartitionsToTxnTopicResult), versions="0-3", default=()
    )
