"""ListPartitionReassignments, API 46: version 0, flexible from 0."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field


class ListPartitionReassignmentsTopics(Struct):
    """An element of ``ListPartitionReassignmentsRequest.topics``."""

    name: str = field(types.string, default="")
    partition_indexes: tuple[int, ...] = field(types.array(types.int32), default=())


class ListPartitionReassignmentsRequest(Message, kind="request", api_key=46, versions="0", flexible="0+"):
    """Request of API 46, version 0."""

    timeout_ms: int = field(types.int32, default=60000)
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None = field(
        types.array(ListPartitionReassignmentsTopics), nullable="0+", default=None
    )


class OngoingPartitionReassignment(Struct):
    """An element of ``OngoingTopicReassignment.partitions``."""

    partition_index: int = field(types.int32, default=0)
    replicas: tuple[int, ...] = field(types.array(types.int32), default=())
    adding_replicas: tuple[int, ...] = field(types.array(types.int32), default=())
    removing_replicas: tuple[int, ...] = field(types.array(types.int32), default=())


class OngoingTopicReassignment(Struct):
    """An element of ``ListPartitionReassignmentsResponse.topics``."""

    name: str = field(types.string, default="")
    partitions: tuple[OngoingPartitionReassignment, ...] = field(types.array(OngoingPartitionReassignment), default=())


class ListPartitionReassignmentsResponse(Message, kind="response", api_key=46, versions="0", flexible="0+"):
    """Response of API 46, version 0."""

    throttle_time_ms: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default="")
    topics: tuple[OngoingTopicReassignment, ...] = field(types.array(OngoingTopicReassignment), default=())
