"""OffsetForLeaderEpoch, API 23: versions 2 to 4, flexible from 4."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field


class OffsetForLeaderPartition(Struct):
    """An element of ``OffsetForLeaderTopic.partitions``."""

    partition: int = field(types.int32, default=0)
    current_leader_epoch: int = field(types.int32, versions="2+", ignorable=True, default=-1)
    leader_epoch: int = field(types.int32, default=0)


class OffsetForLeaderTopic(Struct):
    """An element of ``OffsetForLeaderEpochRequest.topics``."""

    topic: str = field(types.string, default="")
    partitions: tuple[OffsetForLeaderPartition, ...] = field(types.array(OffsetForLeaderPartition), default=())


class OffsetForLeaderEpochRequest(Message, kind="request", api_key=23, versions="2-4", flexible="4+"):
    """Request of API 23, versions 2 to 4."""

    replica_id: int = field(types.int32, versions="3+", ignorable=True, default=-2)
    topics: tuple[OffsetForLeaderTopic, ...] = field(types.array(OffsetForLeaderTopic), default=())


class EpochEndOffset(Struct):
    """An element of ``OffsetForLeaderTopicResult.partitions``."""

    error_code: int = field(types.int16, default=0)
    partition: int = field(types.int32, default=0)
    leader_epoch: int = field(types.int32, versions="1+", ignorable=True, default=-1)
    end_offset: int = field(types.int64, default=-1)


class OffsetForLeaderTopicResult(Struct):
    """An element of ``OffsetForLeaderEpochResponse.topics``."""

    topic: str = field(types.string, default="")
    partitions: tuple[EpochEndOffset, ...] = field(types.array(EpochEndOffset), default=())


class OffsetForLeaderEpochResponse(Message, kind="response", api_key=23, versions="2-4", flexible="4+"):
    """Response of API 23, versions 2 to 4."""

    throttle_time_ms: int = field(types.int32, versions="2+", ignorable=True, default=0)
    topics: tuple[OffsetForLeaderTopicResult, ...] = field(types.array(OffsetForLeaderTopicResult), default=())
