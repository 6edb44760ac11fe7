"""DescribeShareGroupOffsets, API 90: versions 0 to 1, flexible from 0."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID


class DescribeShareGroupOffsetsRequestTopic(Struct):
    """An element of ``DescribeShareGroupOffsetsRequestGroup.topics``."""

    topic_name: str = field(types.string, default="")
    partitions: tuple[int, ...] = field(types.array(types.int32), default=())


class DescribeShareGroupOffsetsRequestGroup(Struct):
    """An element of ``DescribeShareGroupOffsetsRequest.groups``."""

    group_id: str = field(types.string, default="")
    topics: tuple[DescribeShareGroupOffsetsRequestTopic, ...] | None = field(
        types.array(DescribeShareGroupOffsetsRequestTopic), nullable="0+", default=()
    )


class DescribeShareGroupOffsetsRequest(Message, kind="request", api_key=90, versions="0-1", flexible="0+"):
    """Request of API 90, versions 0 to 1."""

    groups: tuple[DescribeShareGroupOffsetsRequestGroup, ...] = field(
        types.array(DescribeShareGroupOffsetsRequestGroup), default=()
    )


class DescribeShareGroupOffsetsResponsePartition(Struct):
    """An element of ``DescribeShareGroupOffsetsResponseTopic.partitions``."""

    partition_index: int = field(types.int32, default=0)
    start_offset: int = field(types.int64, default=0)
    leader_epoch: int = field(types.int32, default=0)
    lag: int = field(types.int64, versions="1+", ignorable=True, default=-1)
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default=None)


class DescribeShareGroupOffsetsResponseTopic(Struct):
    """An element of ``DescribeShareGroupOffsetsResponseGroup.topics``."""

    topic_name: str = field(types.string, default="")
    topic_id: UUID = field(types.uuid, default=ZERO_UUID)
    partitions: tuple[DescribeShareGroupOffsetsResponsePartition, ...] = field(
        types.array(DescribeShareGroupOffsetsResponsePartition), default=()
    )


class DescribeShareGroupOffsetsResponseGroup(Struct):
    """An element of ``DescribeShareGroupOffsetsResponse.groups``."""

    group_id: str = field(types.string, default="")
    topics: tuple[DescribeShareGroupOffsetsResponseTopic, ...] = field(
        types.array(DescribeShareGroupOffsetsResponseTopic), default=()
    )
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default=None)


class DescribeShareGroupOffsetsResponse(Message, kind="response", api_key=90, versions="0-1", flexible="0+"):
    """Response of API 90, versions 0 to 1."""

    throttle_time_ms: int = field(types.int32, default=0)
    groups: tuple[DescribeShareGroupOffsetsResponseGroup, ...] = field(
        types.array(DescribeShareGroupOffsetsResponseGroup), default=()
    )
