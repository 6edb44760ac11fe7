"""InitializeShareGroupState, API 83: version 0, flexible from 0."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID


class PartitionData(Struct):
    """An element of ``InitializeStateData.partitions``."""

    partition: int = field(types.int32, default=0)
    state_epoch: int = field(types.int32, default=0)
    start_offset: int = field(types.int64, default=0)


class InitializeStateData(Struct):
    """An element of ``InitializeShareGroupStateRequest.topics``."""

    topic_id: UUID = field(types.uuid, default=ZERO_UUID)
    partitions: tuple[PartitionData, ...] = field(types.array(PartitionData), default=())


class InitializeShareGroupStateRequest(Message, kind="request", api_key=83, versions="0", flexible="0+"):
    """Request of API 83, version 0."""

    group_id: str = field(types.string, default="")
    topics: tuple[InitializeStateData, ...] = field(types.array(InitializeStateData), default=())


class PartitionResult(Struct):
    """An element of ``InitializeStateResult.partitions``."""

    partition: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default=None)


class InitializeStateResult(Struct):
    """An element of ``InitializeShareGroupStateResponse.results``."""

    topic_id: UUID = field(types.uuid, default=ZERO_UUID)
    partitions: tuple[PartitionResult, ...] = field(types.array(PartitionResult), default=())


class InitializeShareGroupStateResponse(Message, kind="response", api_key=83, versions="0", flexible="0+"):
    """Response of API 83, version 0."""

    results: tuple[InitializeStateResult, ...] = field(types.array(InitializeStateResult), default=())
