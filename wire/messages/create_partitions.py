"""CreatePartitions, API 37: versions 0 to 3, flexible from 2."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field


class CreatePartitionsAssignment(Struct):
    """An element of ``CreatePartitionsTopic.assignments``."""

    broker_ids: tuple[int, ...] = field(types.array(types.int32), default=())


class CreatePartitionsTopic(Struct):
    """An element of ``CreatePartitionsRequest.topics``."""

    name: str = field(types.string, default="")
    count: int = field(types.int32, default=0)
    assignments: tuple[CreatePartitionsAssignment, ...] | None = field(
        types.array(CreatePartitionsAssignment), nullable="0+", default=()
    )


class CreatePartitionsRequest(Message, kind="request", api_key=37, versions="0-3", flexible="2+"):
    """Request of API 37, versions 0 to 3."""

    topics: tuple[CreatePartitionsTopic, ...] = field(types.array(CreatePartitionsTopic), default=())
    timeout_ms: int = field(types.int32, default=0)
    validate_only: bool = field(types.boolean, default=False)


class CreatePartitionsTopicResult(Struct):
    """An element of ``CreatePartitionsResponse.results``."""

    name: str = field(types.string, default="")
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default=None)


class CreatePartitionsResponse(Message, kind="response", api_key=37, versions="0-3", flexible="2+"):
    """Response of API 37, versions 0 to 3."""

    throttle_time_ms: int = field(types.int32, default=0)
    results: tuple[CreatePartitionsTopicResult, ...] = field(types.array(CreatePartitionsTopicResult), default=())
