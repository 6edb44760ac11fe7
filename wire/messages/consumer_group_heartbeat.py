"""ConsumerGroupHeartbeat, API 68: versions 0 to 1, flexible from 0."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID


class TopicPartitions(Struct):
    """An element of ``ConsumerGroupHeartbeatRequest.topic_partitions``."""

    topic_id: UUID = field(types.uuid, default=ZERO_UUID)
    partitions: tuple[int, ...] = field(types.array(types.int32), default=())


class ConsumerGroupHeartbeatRequest(Message, kind="request", api_key=68, versions="0-1", flexible="0+"):
    """Request of API 68, versions 0 to 1."""

    group_id: str = field(types.string, default="")
    member_id: str = field(types.string, default="")
    member_epoch: int = field(types.int32, default=0)
    instance_id: str | None = field(types.string, nullable="0+", default=None)
    rack_id: str | None = field(types.string, nullable="0+", default=None)
    rebalance_timeout_ms: int = field(types.int32, default=-1)
    subscribed_topic_names: tuple[str, ...] | None = field(types.array(types.string), nullable="0+", default=None)
    subscribed_topic_regex: str | None = field(types.string, versions="1+", nullable="1+", default=None)
    server_assignor: str | None = field(types.string, nullable="0+", default=None)
    topic_partitions: tuple[TopicPartitions, ...] | None = field(
        types.array(TopicPartitions), nullable="0+", default=None
    )


class Assignment(Struct):
    """The value of ``ConsumerGroupHeartbeatResponse.assignment``."""

    topic_partitions: tuple[TopicPartitions, ...] = field(types.array(TopicPartitions), default=())


class ConsumerGroupHeartbeatResponse(Message, kind="response", api_key=68, versions="0-1", flexible="0+"):
    """Response of API 68, versions 0 to 1."""

    throttle_time_ms: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default=None)
    member_id: str | None = field(types.string, nullable="0+", default=None)
    member_epoch: int = field(types.int32, default=0)
    heartbeat_interval_ms: int = field(types.int32, default=0)
    assignment: Assignment | None = field(Assignment, nullable="0+", default=None)
