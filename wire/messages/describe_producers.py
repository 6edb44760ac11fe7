"""DescribeProducers, API 61: version 0, flexible from 0."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field


class TopicRequest(Struct):
    """An element of ``DescribeProducersRequest.topics``."""

    name: str = field(types.string, default="")
    partition_indexes: tuple[int, ...] = field(types.array(types.int32), default=())


class DescribeProducersRequest(Message, kind="request", api_key=61, versions="0", flexible="0+"):
    """Request of API 61, version 0."""

    topics: tuple[TopicRequest, ...] = field(types.array(TopicRequest), default=())


class ProducerState(Struct):
    """An element of ``PartitionResponse.active_producers``."""

    producer_id: int = field(types.int64, default=0)
    producer_epoch: int = field(types.int32, default=0)
    last_sequence: int = field(types.int32, default=-1)
    last_timestamp: int = field(types.int64, default=-1)
    coordinator_epoch: int = field(types.int32, default=0)
    current_txn_start_offset: int = field(types.int64, default=-1)


class PartitionResponse(Struct):
    """An element of ``TopicResponse.partitions``."""

    partition_index: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default=None)
    active_producers: tuple[ProducerState, ...] = field(types.array(ProducerState), default=())


class TopicResponse(Struct):
    """An element of ``DescribeProducersResponse.topics``."""

    name: str = field(types.string, default="")
    partitions: tuple[PartitionResponse, ...] = field(types.array(PartitionResponse), default=())


class DescribeProducersResponse(Message, kind="response", api_key=61, versions="0", flexible="0+"):
    """Response of API 61, version 0."""

    throttle_time_ms: int = field(types.int32, default=0)
    topics: tuple[TopicResponse, ...] = field(types.array(TopicResponse), default=())
