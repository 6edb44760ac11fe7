"""ImportBatches, API 10001 (Odradek's own): version 0, flexible from 0.

It appends record batches of another log at the offsets that they have there; see `gateway/handlers/import_batches.py`.
"""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field


class ImportPartition(Struct):
    """An element of ``ImportTopic.partitions``. `records` are whole batches of format v2 in the order of offsets."""

    index: int = field(types.int32, default=0)
    records: memoryview | None = field(types.records_in, nullable="0+", default=None)


class ImportTopic(Struct):
    """An element of ``ImportBatchesRequest.topics``."""

    name: str = field(types.string, default="")
    partitions: tuple[ImportPartition, ...] = field(types.array(ImportPartition), default=())


class ImportBatchesRequest(Message, kind="request", api_key=10001, versions="0", flexible="0+"):
    """Request of API 10001, version 0."""

    timeout_ms: int = field(types.int32, default=0)
    topics: tuple[ImportTopic, ...] = field(types.array(ImportTopic), default=())


class ImportPartitionResult(Struct):
    """An element of ``ImportTopicResult.partitions``. `log_end_offset` is -1 if the log is not available."""

    index: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default=None)
    log_end_offset: int = field(types.int64, default=-1)


class ImportTopicResult(Struct):
    """An element of ``ImportBatchesResponse.topics``."""

    name: str = field(types.string, default="")
    partitions: tuple[ImportPartitionResult, ...] = field(types.array(ImportPartitionResult), default=())


class ImportBatchesResponse(Message, kind="response", api_key=10001, versions="0", flexible="0+"):
    """Response of API 10001, version 0."""

    throttle_time_ms: int = field(types.int32, default=0)
    topics: tuple[ImportTopicResult, ...] = field(types.array(ImportTopicResult), default=())
