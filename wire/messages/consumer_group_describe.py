"""ConsumerGroupDescribe, API 69: versions 0 to 1, flexible from 0."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID


class ConsumerGroupDescribeRequest(Message, kind="request", api_key=69, versions="0-1", flexible="0+"):
    """Request of API 69, versions 0 to 1."""

    group_ids: tuple[str, ...] = field(types.array(types.string), default=())
    include_authorized_operations: bool = field(types.boolean, default=False)


class TopicPartitions(Struct):
    """An element of ``Assignment.topic_partitions``."""

    topic_id: UUID = field(types.uuid, default=ZERO_UUID)
    topic_name: str = field(types.string, default="")
    partitions: tuple[int, ...] = field(types.array(types.int32), default=())


class Assignment(Struct):
    """The value of ``Member.assignment``."""

    topic_partitions: tuple[TopicPartitions, ...] = field(types.array(TopicPartitions), default=())


class Member(Struct):
    """An element of ``DescribedGroup.members``."""

    member_id: str = field(types.string, default="")
    instance_id: str | None = field(types.string, nullable="0+", default=None)
    rack_id: str | None = field(types.string, nullable="0+", default=None)
    member_epoch: int = field(types.int32, default=0)
    client_id: str = field(types.string, default="")
    client_host: str = field(types.string, default="")
    subscribed_topic_names: tuple[str, ...] = field(types.array(types.string), default=())
    subscribed_topic_regex: str | None = field(types.string, nullable="0+", default=None)
    assignment: Assignment = field(Assignment, default=Assignment())
    target_assignment: Assignment = field(Assignment, default=Assignment())
    member_type: int = field(types.int8, versions="1+", ignorable=True, default=-1)


class DescribedGroup(Struct):
    """An element of ``ConsumerGroupDescribeResponse.groups``."""

    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default=None)
    group_id: str = field(types.string, default="")
    group_state: str = field(types.string, default="")
    group_epoch: int = field(types.int32, default=0)
    assignment_epoch: int = field(types.int32, default=0)
    assignor_name: str = field(types.string, default="")
    members: tuple[Member, ...] = field(types.array(Member), default=())
    authorized_operations: int = field(types.int32, default=-2147483648)


class ConsumerGroupDescribeResponse(Message, kind="response", api_key=69, versions="0-1", flexible="0+"):
    """Response of API 69, versions 0 to 1."""

    throttle_time_ms: int = field(types.int32, default=0)
    groups: tuple[DescribedGroup, ...] = field(types.array(DescribedGroup), default=())
