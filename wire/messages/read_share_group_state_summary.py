"""ReadShareGroupStateSummary, API 87: versions 0 to 1, flexible from 0."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID


class PartitionData(Struct):
    """An element of ``ReadStateSummaryData.partitions``."""

    partition: int = field(types.int32, default=0)
    leader_epoch: int = field(types.int32, default=0)


class ReadStateSummaryData(Struct):
    """An element of ``ReadShareGroupStateSummaryRequest.topics``."""

    topic_id: UUID = field(types.uuid, default=ZERO_UUID)
    partitions: tuple[PartitionData, ...] = field(types.array(PartitionData), default=())


class ReadShareGroupStateSummaryRequest(Message, kind="request", api_key=87, versions="0-1", flexible="0+"):
    """Request of API 87, versions 0 to 1."""

    group_id: str = field(types.string, default="")
    topics: tuple[ReadStateSummaryData, ...] = field(types.array(ReadStateSummaryData), default=())


class PartitionResult(Struct):
    """An element of ``ReadStateSummaryResult.partitions``."""

    partition: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default=None)
    state_epoch: int = field(types.int32, default=0)
    leader_epoch: int = field(types.int32, default=0)
    start_offset: int = field(types.int64, default=0)
    delivery_complete_count: int = field(types.int32, versions="1+", ignorable=True, default=-1)


class ReadStateSummaryResult(Struct):
    """An element of ``ReadShareGroupStateSummaryResponse.results``."""

    topic_id: UUID = field(types.uuid, default=ZERO_UUID)
    partitions: tuple[PartitionResult, ...] = field(types.array(PartitionResult), default=())


class ReadShareGroupStateSummaryResponse(Message, kind="response", api_key=87, versions="0-1", flexible="0+"):
    """Response of API 87, versions 0 to 1."""

    results: tuple[ReadStateSummaryResult, ...] = field(types.array(ReadStateSummaryResult), default=())
