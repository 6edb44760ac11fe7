"""ListOffsets, API 2: versions 1 to 11, flexible from 6."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field


class ListOffsetsPartition(Struct):
    """An element of ``ListOffsetsTopic.partitions``."""

    partition_index: int = field(types.int32, default=0)
    current_leader_epoch: int = field(types.int32, versions="4+", ignorable=True, default=-1)
    timestamp: int = field(types.int64, default=0)


class ListOffsetsTopic(Struct):
    """An element of ``ListOffsetsRequest.topics``."""

    name: str = field(types.string, default="")
    partitions: tuple[ListOffsetsPartition, ...] = field(types.array(ListOffsetsPartition), default=())


class ListOffsetsRequest(Message, kind="request", api_key=2, versions="1-11", flexible="6+"):
    """Request of API 2, versions 1 to 11."""

    replica_id: int = field(types.int32, default=0)
    isolation_level: int = field(types.int8, versions="2+", default=0)
    topics: tuple[ListOffsetsTopic, ...] = field(types.array(ListOffsetsTopic), default=())
    timeout_ms: int = field(types.int32, versions="10+", ignorable=True, default=0)


class ListOffsetsPartitionResponse(Struct):
    """An element of ``ListOffsetsTopicResponse.partitions``."""

    partition_index: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    timestamp: int = field(types.int64, versions="1+", default=-1)
    offset: int = field(types.int64, versions="1+", default=-1)
    leader_epoch: int = field(types.int32, versions="4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    """An element of ``ListOffsetsResponse.topics``."""

    name: str = field(types.string, default="")
    partitions: tuple[ListOffsetsPartitionResponse, ...] = field(types.array(ListOffsetsPartitionResponse), default=())


class ListOffsetsResponse(Message, kind="response", api_key=2, versions="1-11", flexible="6+"):
    """Response of API 2, versions 1 to 11."""

    throttle_time_ms: int = field(types.int32, versions="2+", ignorable=True, default=0)
    topics: tuple[ListOffsetsTopicResponse, ...] = field(types.array(ListOffsetsTopicResponse), default=())
