"""DeleteRecords, API 21: versions 0 to 2, flexible from 2."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field


class DeleteRecordsPartition(Struct):
    """An element of ``DeleteRecordsTopic.partitions``."""

    partition_index: int = field(types.int32, default=0)
    offset: int = field(types.int64, default=0)


class DeleteRecordsTopic(Struct):
    """An element of ``DeleteRecordsRequest.topics``."""

    name: str = field(types.string, default="")
    partitions: tuple[DeleteRecordsPartition, ...] = field(types.array(DeleteRecordsPartition), default=())


class DeleteRecordsRequest(Message, kind="request", api_key=21, versions="0-2", flexible="2+"):
    """Request of API 21, versions 0 to 2."""

    topics: tuple[DeleteRecordsTopic, ...] = field(types.array(DeleteRecordsTopic), default=())
    timeout_ms: int = field(types.int32, default=0)


class DeleteRecordsPartitionResult(Struct):
    """An element of ``DeleteRecordsTopicResult.partitions``."""

    partition_index: int = field(types.int32, default=0)
    low_watermark: int = field(types.int64, default=0)
    error_code: int = field(types.int16, default=0)


class DeleteRecordsTopicResult(Struct):
    """An element of ``DeleteRecordsResponse.topics``."""

    name: str = field(types.string, default="")
    partitions: tuple[DeleteRecordsPartitionResult, ...] = field(types.array(DeleteRecordsPartitionResult), default=())


class DeleteRecordsResponse(Message, kind="response", api_key=21, versions="0-2", flexible="2+"):
    """Response of API 21, versions 0 to 2."""

    throttle_time_ms: int = field(types.int32, default=0)
    topics: tuple[DeleteRecordsTopicResult, ...] = field(types.array(DeleteRecordsTopicResult), default=())
