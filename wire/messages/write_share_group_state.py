"""WriteShareGroupState, API 85: versions 0 to 1, flexible from 0."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID


class StateBatch(Struct):
    """An element of ``PartitionData.state_batches``."""

    first_offset: int = field(types.int64, default=0)
    last_offset: int = field(types.int64, default=0)
    delivery_state: int = field(types.int8, default=0)
    delivery_count: int = field(types.int16, default=0)


class PartitionData(Struct):
    """An element of ``WriteStateData.partitions``."""

    partition: int = field(types.int32, default=0)
    state_epoch: int = field(types.int32, default=0)
    leader_epoch: int = field(types.int32, default=0)
    start_offset: int = field(types.int64, default=0)
    delivery_complete_count: int = field(types.int32, versions="1+", ignorable=True, default=-1)
    state_batches: tuple[StateBatch, ...] = field(types.array(StateBatch), default=())


class WriteStateData(Struct):
    """An element of ``WriteShareGroupStateRequest.topics``."""

    topic_id: UUID = field(types.uuid, default=ZERO_UUID)
    partitions: tuple[PartitionData, ...] = field(types.array(PartitionData), default=())


class WriteShareGroupStateRequest(Message, kind="request", api_key=85, versions="0-1", flexible="0+"):
    """Request of API 85, versions 0 to 1."""

    group_id: str = field(types.string, default="")
    topics: tuple[WriteStateData, ...] = field(types.array(WriteStateData), default=())


class PartitionResult(Struct):
    """An element of ``WriteStateResult.partitions``."""

    partition: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default=None)


class WriteStateResult(Struct):
    """An element of ``WriteShareGroupStateResponse.results``."""

    topic_id: UUID = field(types.uuid, default=ZERO_UUID)
    partitions: tuple[PartitionResult, ...] = field(types.array(PartitionResult), default=())


class WriteShareGroupStateResponse(Message, kind="response", api_key=85, versions="0-1", flexible="0+"):
    """Response of API 85, versions 0 to 1."""

    results: tuple[WriteStateResult, ...] = field(types.array(WriteStateResult), default=())
