"""AlterShareGroupOffsets, API 91: version 0, flexible from 0."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID


class AlterShareGroupOffsetsRequestPartition(Struct):
    """An element of ``AlterShareGroupOffsetsRequestTopic.partitions``."""

    partition_index: int = field(types.int32, default=0)
    start_offset: int = field(types.int64, default=0)


class AlterShareGroupOffsetsRequestTopic(Struct):
    """An element of ``AlterShareGroupOffsetsRequest.topics``."""

    topic_name: str = field(types.string, default="")
    partitions: tuple[AlterShareGroupOffsetsRequestPartition, ...] = field(
        types.array(AlterShareGroupOffsetsRequestPartition), default=()
    )


class AlterShareGroupOffsetsRequest(Message, kind="request", api_key=91, versions="0", flexible="0+"):
    """Request of API 91, version 0."""

    group_id: str = field(types.string, default="")
    topics: tuple[AlterShareGroupOffsetsRequestTopic, ...] = field(
        types.array(AlterShareGroupOffsetsRequestTopic), default=()
    )


class AlterShareGroupOffsetsResponsePartition(Struct):
    """An element of ``AlterShareGroupOffsetsResponseTopic.partitions``."""

    partition_index: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default=None)


class AlterShareGroupOffsetsResponseTopic(Struct):
    """An element of ``AlterShareGroupOffsetsResponse.responses``."""

    topic_name: str = field(types.string, default="")
    topic_id: UUID = field(types.uuid, default=ZERO_UUID)
    partitions: tuple[AlterShareGroupOffsetsResponsePartition, ...] = field(
        types.array(AlterShareGroupOffsetsResponsePartition), default=()
    )


class AlterShareGroupOffsetsResponse(Message, kind="response", api_key=91, versions="0", flexible="0+"):
    """Response of API 91, version 0."""

    throttle_time_ms: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default=None)
    responses: tuple[AlterShareGroupOffsetsResponseTopic, ...] = field(
        types.array(AlterShareGroupOffsetsResponseTopic), default=()
    )
