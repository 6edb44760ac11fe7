"""DeleteShareGroupState, API 86: version 0, flexible from 0."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID


class PartitionData(Struct):
    """An element of ``DeleteStateData.partitions``."""

    partition: int = field(types.int32, default=0)


class DeleteStateData(Struct):
    """An element of ``DeleteShareGroupStateRequest.topics``."""

    topic_id: UUID = field(types.uuid, default=ZERO_UUID)
    partitions: tuple[PartitionData, ...] = field(types.array(PartitionData), default=())


class DeleteShareGroupStateRequest(Message, kind="request", api_key=86, versions="0", flexible="0+"):
    """Request of API 86, version 0."""

    group_id: str = field(types.string, default="")
    topics: tuple[DeleteStateData, ...] = field(types.array(DeleteStateData), default=())


class PartitionResult(Struct):
    """An element of ``DeleteStateResult.partitions``."""

    partition: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default=None)


class DeleteStateResult(Struct):
    """An element of ``DeleteShareGroupStateResponse.results``."""

    topic_id: UUID = field(types.uuid, default=ZERO_UUID)
    partitions: tuple[PartitionResult, ...] = field(types.array(PartitionResult), default=())


class DeleteShareGroupStateResponse(Message, kind="response", api_key=86, versions="0", flexible="0+"):
    """Response of API 86, version 0."""

    results: tuple[DeleteStateResult, ...] = field(types.array(DeleteStateResult), default=())
