"""AlterPartitionReassignments, API 45: versions 0 to 1, flexible from 0."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field


class ReassignablePartition(Struct):
    """An element of ``ReassignableTopic.partitions``."""

    partition_index: int = field(types.int32, default=0)
    replicas: tuple[int, ...] | None = field(types.array(types.int32), nullable="0+", default=None)


class ReassignableTopic(Struct):
    """An element of ``AlterPartitionReassignmentsRequest.topics``."""

    name: str = field(types.string, default="")
    partitions: tuple[ReassignablePartition, ...] = field(types.array(ReassignablePartition), default=())


class AlterPartitionReassignmentsRequest(Message, kind="request", api_key=45, versions="0-1", flexible="0+"):
    """Request of API 45, versions 0 to 1."""

    timeout_ms: int = field(types.int32, default=60000)
    allow_replication_factor_change: bool = field(types.boolean, versions="1+", default=True)
    topics: tuple[ReassignableTopic, ...] = field(types.array(ReassignableTopic), default=())


class ReassignablePartitionResponse(Struct):
    """An element of ``ReassignableTopicResponse.partitions``."""

    partition_index: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default="")


class ReassignableTopicResponse(Struct):
    """An element of ``AlterPartitionReassignmentsResponse.responses``."""

    name: str = field(types.string, default="")
    partitions: tuple[ReassignablePartitionResponse, ...] = field(
        types.array(ReassignablePartitionResponse), default=()
    )


class AlterPartitionReassignmentsResponse(Message, kind="response", api_key=45, versions="0-1", flexible="0+"):
    """Response of API 45, versions 0 to 1."""

    throttle_time_ms: int = field(types.int32, default=0)
    allow_replication_factor_change: bool = field(types.boolean, versions="1+", ignorable=True, default=True)
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default="")
    responses: tuple[ReassignableTopicResponse, ...] = field(types.array(ReassignableTopicResponse), default=())
