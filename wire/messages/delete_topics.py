"""DeleteTopics, API 20: versions 1 to 6, flexible from 4."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID


class DeleteTopicState(Struct):
    """An element of ``DeleteTopicsRequest.topics``."""

    name: str | None = field(types.string, versions="6+", nullable="6+", default=None)
    topic_id: UUID = field(types.uuid, versions="6+", default=ZERO_UUID)


class DeleteTopicsRequest(Message, kind="request", api_key=20, versions="1-6", flexible="4+"):
    """Request of API 20, versions 1 to 6."""

    topics: tuple[DeleteTopicState, ...] = field(types.array(DeleteTopicState), versions="6+", default=())
    topic_names: tuple[str, ...] = field(types.array(types.string), versions="0-5", ignorable=True, default=())
    timeout_ms: int = field(types.int32, default=0)


class DeletableTopicResult(Struct):
    """An element of ``DeleteTopicsResponse.responses``."""

    name: str | None = field(types.string, nullable="6+", default="")
    topic_id: UUID = field(types.uuid, versions="6+", ignorable=True, default=ZERO_UUID)
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, versions="5+", nullable="5+", ignorable=True, default=None)


class DeleteTopicsResponse(Message, kind="response", api_key=20, versions="1-6", flexible="4+"):
    """Response of API 20, versions 1 to 6."""

    throttle_time_ms: int = field(types.int32, versions="1+", ignorable=True, default=0)
    responses: tuple[DeletableTopicResult, ...] = field(types.array(DeletableTopicResult), default=())
