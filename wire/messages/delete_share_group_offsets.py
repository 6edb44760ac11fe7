"""DeleteShareGroupOffsets, API 92: version 0, flexible from 0."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID


class DeleteShareGroupOffsetsRequestTopic(Struct):
    """An element of ``DeleteShareGroupOffsetsRequest.topics``."""

    topic_name: str = field(types.string, default="")


class DeleteShareGroupOffsetsRequest(Message, kind="request", api_key=92, versions="0", flexible="0+"):
    """Request of API 92, version 0."""

    group_id: str = field(types.string, default="")
    topics: tuple[DeleteShareGroupOffsetsRequestTopic, ...] = field(
        types.array(DeleteShareGroupOffsetsRequestTopic), default=()
    )


class DeleteShareGroupOffsetsResponseTopic(Struct):
    """An element of ``DeleteShareGroupOffsetsResponse.responses``."""

    topic_name: str = field(types.string, default="")
    topic_id: UUID = field(types.uuid, default=ZERO_UUID)
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default=None)


class DeleteShareGroupOffsetsResponse(Message, kind="response", api_key=92, versions="0", flexible="0+"):
    """Response of API 92, version 0."""

    throttle_time_ms: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default=None)
    responses: tuple[DeleteShareGroupOffsetsResponseTopic, ...] = field(
        types.array(DeleteShareGroupOffsetsResponseTopic), default=()
    )
