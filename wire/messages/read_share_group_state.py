"""ReadShareGroupState, API 84: version 0, flexible from 0."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID


class PartitionData(Struct):
    """An element of ``ReadStateData.partitions``."""

    partition: int = field(types.int32, default=0)
    leader_epoch: int = field(types.int32, default=0)


class ReadStateData(Struct):
    """An element of ``ReadShareGroupStateRequest.topics``."""

    topic_id: UUID = field(types.uuid, default=ZERO_UUID)
    partitions: tuple[PartitionData, ...] = field(types.array(PartitionData), default=())


class ReadShareGroupStateRequest(Message, kind="request", api_key=84, versions="0", flexible="0+"):
    """Request of API 84, version 0."""

    group_id: str = field(types.string, default="")
    topics: tuple[ReadStateData, ...] = field(types.array(ReadStateData), default=())


class StateBatch(Struct):
    """An element of ``PartitionResult.state_batches``."""

    first_offset: int = field(types.int64, default=0)
    last_offset: int = field(types.int64, default=0)
    delivery_state: int = field(types.int8, default=0)
    delivery_count: int = field(types.int16, default=0)


class PartitionResult(Struct):
    """An element of ``ReadStateResult.partitions``."""

    partition: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default=None)
    state_epoch: int = field(types.int32, default=0)
    start_offset: int = field(types.int64, default=0)
    state_batches: tuple[StateBatch, ...] = field(types.array(StateBatch), default=())


class ReadStateResult(Struct):
    """An element of ``ReadShareGroupStateResponse.results``."""

    topic_id: UUID = field(types.uuid, default=ZERO_UUID)
    partitions: tuple[PartitionResult, ...] = field(types.array(PartitionResult), default=())


class ReadShareGroupStateResponse(Message, kind="response", api_key=84, versions="0", flexible="0+"):
    """Response of API 84, version 0."""

    results: tuple[ReadStateResult, ...] = field(types.array(ReadStateResult), default=())
