"""DescribeTopicPartitions, API 75: version 0, flexible from 0."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID


class TopicRequest(Struct):
    """An element of ``DescribeTopicPartitionsRequest.topics``."""

    name: str = field(types.string, default="")


class Cursor(Struct):
    """The value of ``DescribeTopicPartitionsRequest.cursor``."""

    topic_name: str = field(types.string, default="")
    partition_index: int = field(types.int32, default=0)


class DescribeTopicPartitionsRequest(Message, kind="request", api_key=75, versions="0", flexible="0+"):
    """Request of API 75, version 0."""

    topics: tuple[TopicRequest, ...] = field(types.array(TopicRequest), default=())
    response_partition_limit: int = field(types.int32, default=2000)
    cursor: Cursor | None = field(Cursor, nullable="0+", default=None)


class DescribeTopicPartitionsResponsePartition(Struct):
    """An element of ``DescribeTopicPartitionsResponseTopic.partitions``."""

    error_code: int = field(types.int16, default=0)
    partition_index: int = field(types.int32, default=0)
    leader_id: int = field(types.int32, default=0)
    leader_epoch: int = field(types.int32, ignorable=True, default=-1)
    replica_nodes: tuple[int, ...] = field(types.array(types.int32), default=())
    isr_nodes: tuple[int, ...] = field(types.array(types.int32), default=())
    eligible_leader_replicas: tuple[int, ...] | None = field(types.array(types.int32), nullable="0+", default=None)
    last_known_elr: tuple[int, ...] | None = field(types.array(types.int32), nullable="0+", default=None)
    offline_replicas: tuple[int, ...] = field(types.array(types.int32), ignorable=True, default=())


class DescribeTopicPartitionsResponseTopic(Struct):
    """An element of ``DescribeTopicPartitionsResponse.topics``."""

    error_code: int = field(types.int16, default=0)
    name: str | None = field(types.string, nullable="0+", default="")
    topic_id: UUID = field(types.uuid, ignorable=True, default=ZERO_UUID)
    is_internal: bool = field(types.boolean, ignorable=True, default=False)
    partitions: tuple[DescribeTopicPartitionsResponsePartition, ...] = field(
        types.array(DescribeTopicPartitionsResponsePartition), default=()
    )
    topic_authorized_operations: int = field(types.int32, default=-2147483648)


class DescribeTopicPartitionsResponse(Message, kind="response", api_key=75, versions="0", flexible="0+"):
    """Response of API 75, version 0."""

    throttle_time_ms: int = field(types.int32, ignorable=True, default=0)
    topics: tuple[DescribeTopicPartitionsResponseTopic, ...] = field(
        types.array(DescribeTopicPartitionsResponseTopic), default=()
    )
    next_cursor: Cursor | None = field(Cursor, nullable="0+", default=None)
