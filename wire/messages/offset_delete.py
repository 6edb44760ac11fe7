"""OffsetDelete, API 47: version 0."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field


class OffsetDeleteRequestPartition(Struct):
    """An element of ``OffsetDeleteRequestTopic.partitions``."""

    partition_index: int = field(types.int32, default=0)


class OffsetDeleteRequestTopic(Struct):
    """An element of ``OffsetDeleteRequest.topics``."""

    name: str = field(types.string, default="")
    partitions: tuple[OffsetDeleteRequestPartition, ...] = field(types.array(OffsetDeleteRequestPartition), default=())


class OffsetDeleteRequest(Message, kind="request", api_key=47, versions="0"):
    """Request of API 47, version 0."""

    group_id: str = field(types.string, default="")
    topics: tuple[OffsetDeleteRequestTopic, ...] = field(types.array(OffsetDeleteRequestTopic), default=())


class OffsetDeleteResponsePartition(Struct):
    """An element of ``OffsetDeleteResponseTopic.partitions``."""

    partition_index: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)


class OffsetDeleteResponseTopic(Struct):
    """An element of ``OffsetDeleteResponse.topics``."""

    name: str = field(types.string, default="")
    partitions: tuple[OffsetDeleteResponsePartition, ...] = field(
        types.array(OffsetDeleteResponsePartition), default=()
    )


class OffsetDeleteResponse(Message, kind="response", api_key=47, versions="0"):
    """Response of API 47, version 0."""

    error_code: int = field(types.int16, default=0)
    throttle_time_ms: int = field(types.int32, ignorable=True, default=0)
    topics: tuple[OffsetDeleteResponseTopic, ...] = field(types.array(OffsetDeleteResponseTopic), default=())
