"""OffsetFetch, API 9: versions 1 to 10, flexible from 6."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID


class OffsetFetchRequestTopic(Struct):
    """An element of ``OffsetFetchRequest.topics``."""

    name: str = field(types.string, versions="0-7", default="")
    partition_indexes: tuple[int, ...] = field(types.array(types.int32), versions="0-7", default=())


class OffsetFetchRequestTopics(Struct):
    """An element of ``OffsetFetchRequestGroup.topics``."""

    name: str = field(types.string, versions="8-9", ignorable=True, default="")
    topic_id: UUID = field(types.uuid, versions="10+", ignorable=True, default=ZERO_UUID)
    partition_indexes: tuple[int, ...] = field(types.array(types.int32), versions="8+", default=())


class OffsetFetchRequestGroup(Struct):
    """An element of ``OffsetFetchRequest.groups``."""

    group_id: str = field(types.string, versions="8+", default="")
    member_id: str | None = field(types.string, versions="9+", nullable="9+", ignorable=True, default=None)
    member_epoch: int = field(types.int32, versions="9+", ignorable=True, default=-1)
    topics: tuple[OffsetFetchRequestTopics, ...] | None = field(
        types.array(OffsetFetchRequestTopics), versions="8+", nullable="8+", default=()
    )


class OffsetFetchRequest(Message, kind="request", api_key=9, versions="1-10", flexible="6+"):
    """Request of API 9, versions 1 to 10."""

    group_id: str = field(types.string, versions="0-7", default="")
    topics: tuple[OffsetFetchRequestTopic, ...] | None = field(
        types.array(OffsetFetchRequestTopic), versions="0-7", nullable="2-7", default=()
    )
    groups: tuple[OffsetFetchRequestGroup, ...] = field(types.array(OffsetFetchRequestGroup), versions="8+", default=())
    require_stable: bool = field(types.boolean, versions="7+", default=False)


class OffsetFetchResponsePartition(Struct):
    """An element of ``OffsetFetchResponseTopic.partitions``."""

    partition_index: int = field(types.int32, versions="0-7", default=0)
    committed_offset: int = field(types.int64, versions="0-7", default=0)
    committed_leader_epoch: int = field(types.int32, versions="5-7", ignorable=True, default=-1)
    metadata: str | None = field(types.string, versions="0-7", nullable="0-7", default="")
    error_code: int = field(types.int16, versions="0-7", default=0)


class OffsetFetchResponseTopic(Struct):
    """An element of ``OffsetFetchResponse.topics``."""

    name: str = field(types.string, versions="0-7", default="")
    partitions: tuple[OffsetFetchResponsePartition, ...] = field(
        types.array(OffsetFetchResponsePartition), versions="0-7", default=()
    )


class OffsetFetchResponsePartitions(Struct):
    """An element of ``OffsetFetchResponseTopics.partitions``."""

    partition_index: int = field(types.int32, versions="8+", default=0)
    committed_offset: int = field(types.int64, versions="8+", default=0)
    committed_leader_epoch: int = field(types.int32, versions="8+", ignorable=True, default=-1)
    metadata: str | None = field(types.string, versions="8+", nullable="8+", default="")
    error_code: int = field(types.int16, versions="8+", default=0)


class OffsetFetchResponseTopics(Struct):
    """An element of ``OffsetFetchResponseGroup.topics``."""

    name: str = field(types.string, versions="8-9", ignorable=True, default="")
    topic_id: UUID = field(types.uuid, versions="10+", ignorable=True, default=ZERO_UUID)
    partitions: tuple[OffsetFetchResponsePartitions, ...] = field(
        types.array(OffsetFetchResponsePartitions), versions="8+", default=()
    )


class OffsetFetchResponseGroup(Struct):
    """An element of ``OffsetFetchResponse.groups``."""

    group_id: str = field(types.string, versions="8+", default="")
    topics: tuple[OffsetFetchResponseTopics, ...] = field(
        types.array(OffsetFetchResponseTopics), versions="8+", default=()
    )
    error_code: int = field(types.int16, versions="8+", default=0)


class OffsetFetchResponse(Message, kind="response", api_key=9, versions="1-10", flexible="6+"):
    """Response of API 9, versions 1 to 10."""

    throttle_time_ms: int = field(types.int32, versions="3+", ignorable=True, default=0)
    topics: tuple[OffsetFetchResponseTopic, ...] = field(
        types.array(OffsetFetchResponseTopic), versions="0-7", default=()
    )
    error_code: int = field(types.int16, versions="2-7", ignorable=True, default=0)
    groups: tuple[OffsetFetchResponseGroup, ...] = field(
        types.array(OffsetFetchResponseGroup), versions="8+", default=()
    )
