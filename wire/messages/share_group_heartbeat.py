"""ShareGroupHeartbeat, API 76: version 1, flexible from 0."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID


class ShareGroupHeartbeatRequest(Message, kind="request", api_key=76, versions="1", flexible="0+"):
    """Request of API 76, version 1."""

    group_id: str = field(types.string, default="")
    member_id: str = field(types.string, default="")
    member_epoch: int = field(types.int32, default=0)
    rack_id: str | None = field(types.string, nullable="0+", default=None)
    subscribed_topic_names: tuple[str, ...] | None = field(types.array(types.string), nullable="0+", default=None)


class TopicPartitions(Struct):
    """An element of ``Assignment.topic_partitions``."""

    topic_id: UUID = field(types.uuid, default=ZERO_UUID)
    partitions: tuple[int, ...] = field(types.array(types.int32), default=())


class Assignment(Struct):
    """The value of ``ShareGroupHeartbeatResponse.assignment``."""

    topic_partitions: tuple[TopicPartitions, ...] = field(types.array(TopicPartitions), default=())


class ShareGroupHeartbeatResponse(Message, kind="response", api_key=76, versions="1", flexible="0+"):
    """Response of API 76, version 1."""

    throttle_time_ms: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default=None)
    member_id: str | None = field(types.string, nullable="0+", default=None)
    member_epoch: int = field(types.int32, default=0)
    heartbeat_interval_ms: int = field(types.int32, default=0)
    assignment: Assignment | None = field(Assignment, nullable="0+", default=None)
