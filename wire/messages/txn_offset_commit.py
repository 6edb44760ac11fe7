"""TxnOffsetCommit, API 28: versions 0 to 6, flexible from 3."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID


class TxnOffsetCommitRequestPartition(Struct):
    """An element of ``TxnOffsetCommitRequestTopic.partitions``."""

    partition_index: int = field(types.int32, default=0)
    committed_offset: int = field(types.int64, default=0)
    committed_leader_epoch: int = field(types.int32, versions="2+", ignorable=True, default=-1)
    committed_metadata: str | None = field(types.string, nullable="0+", default="")


class TxnOffsetCommitRequestTopic(Struct):
    """An element of ``TxnOffsetCommitRequest.topics``."""

    name: str = field(types.string, versions="0-5", ignorable=True, default="")
    topic_id: UUID = field(types.uuid, versions="6+", ignorable=True, default=ZERO_UUID)
    partitions: tuple[TxnOffsetCommitRequestPartition, ...] = field(
        types.array(TxnOffsetCommitRequestPartition), default=()
    )


class TxnOffsetCommitRequest(Message, kind="request", api_key=28, versions="0-6", flexible="3+"):
    """Request of API 28, versions 0 to 6."""

    transactional_id: str = field(types.string, default="")
    group_id: str = field(types.string, default="")
    producer_id: int = field(types.int64, default=0)
    producer_epoch: int = field(types.int16, default=0)
    generation_id_or_member_epoch: int = field(types.int32, versions="3+", default=-1)
    member_id: str = field(types.string, versions="3+", default="")
    group_instance_id: str | None = field(types.string, versions="3+", nullable="3+", default=None)
    topics: tuple[TxnOffsetCommitRequestTopic, ...] = field(types.array(TxnOffsetCommitRequestTopic), default=())


class TxnOffsetCommitResponsePartition(Struct):
    """An element of ``TxnOffsetCommitResponseTopic.partitions``."""

    partition_index: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)


class TxnOffsetCommitResponseTopic(Struct):
    """An element of ``TxnOffsetCommitResponse.topics``."""

    name: str = field(types.string, versions="0-5", ignorable=True, default="")
    topic_id: UUID = field(types.uuid, versions="6+", ignorable=True, default=ZERO_UUID)
    partitions: tuple[TxnOffsetCommitResponsePartition, ...] = field(
        types.array(TxnOffsetCommitResponsePartition), default=()
    )


class TxnOffsetCommitResponse(Message, kind="response", api_key=28, versions="0-6", flexible="3+"):
    """Response of API 28, versions 0 to 6."""

    throttle_time_ms: int = field(types.int32, default=0)
    topics: tuple[TxnOffsetCommitResponseTopic, ...] = field(types.array(TxnOffsetCommitResponseTopic), default=())
