"""OffsetCommit, API 8: versions 2 to 10, flexible from 8."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID


class OffsetCommitRequestPartition(Struct):
    """An element of ``OffsetCommitRequestTopic.partitions``."""

    partition_index: int = field(types.int32, default=0)
    committed_offset: int = field(types.int64, default=0)
    committed_leader_epoch: int = field(types.int32, versions="6+", ignorable=True, default=-1)
    committed_metadata: str | None = field(types.string, nullable="0+", default="")


class OffsetCommitRequestTopic(Struct):
    """An element of ``OffsetCommitRequest.topics``."""

    name: str = field(types.string, versions="0-9", ignorable=True, default="")
    topic_id: UUID = field(types.uuid, versions="10+", ignorable=True, default=ZERO_UUID)
    partitions: tuple[OffsetCommitRequestPartition, ...] = field(types.array(OffsetCommitRequestPartition), default=())


class OffsetCommitRequest(Message, kind="request", api_key=8, versions="2-10", flexible="8+"):
    """Request of API 8, versions 2 to 10."""

    group_id: str = field(types.string, default="")
    generation_id_or_member_epoch: int = field(types.int32, versions="1+", ignorable=True, default=-1)
    member_id: str = field(types.string, versions="1+", ignorable=True, default="")
    group_instance_id: str | None = field(types.string, versions="7+", nullable="7+", default=None)
    retention_time_ms: int = field(types.int64, versions="2-4", ignorable=True, default=-1)
    topics: tuple[OffsetCommitRequestTopic, ...] = field(types.array(OffsetCommitRequestTopic), default=())


class OffsetCommitResponsePartition(Struct):
    """An element of ``OffsetCommitResponseTopic.partitions``."""

    partition_index: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)


class OffsetCommitResponseTopic(Struct):
    """An element of ``OffsetCommitResponse.topics``."""

    name: str = field(types.string, versions="0-9", ignorable=True, default="")
    topic_id: UUID = field(types.uuid, versions="10+", ignorable=True, default=ZERO_UUID)
    partitions: tuple[OffsetCommitResponsePartition, ...] = field(
        types.array(OffsetCommitResponsePartition), default=()
    )


class OffsetCommitResponse(Message, kind="response", api_key=8, versions="2-10", flexible="8+"):
    """Response of API 8, versions 2 to 10."""

    throttle_time_ms: int = field(types.int32, versions="3+", ignorable=True, default=0)
    topics: tuple[OffsetCommitResponseTopic, ...] = field(types.array(OffsetCommitResponseTopic), default=())
