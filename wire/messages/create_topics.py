"""CreateTopics, API 19: versions 2 to 7, flexible from 5."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID


class CreatableReplicaAssignment(Struct):
    """An element of ``CreatableTopic.assignments``."""

    partition_index: int = field(types.int32, default=0)
    broker_ids: tuple[int, ...] = field(types.array(types.int32), default=())


class CreatableTopicConfig(Struct):
    """An element of ``CreatableTopic.configs``."""

    name: str = field(types.string, default="")
    value: str | None = field(types.string, nullable="0+", default="")


class CreatableTopic(Struct):
    """An element of ``CreateTopicsRequest.topics``."""

    name: str = field(types.string, default="")
    num_partitions: int = field(types.int32, default=0)
    replication_factor: int = field(types.int16, default=0)
    assignments: tuple[CreatableReplicaAssignment, ...] = field(types.array(CreatableReplicaAssignment), default=())
    configs: tuple[CreatableTopicConfig, ...] = field(types.array(CreatableTopicConfig), default=())


class CreateTopicsRequest(Message, kind="request", api_key=19, versions="2-7", flexible="5+"):
    """Request of API 19, versions 2 to 7."""

    topics: tuple[CreatableTopic, ...] = field(types.array(CreatableTopic), default=())
    timeout_ms: int = field(types.int32, default=60000)
    validate_only: bool = field(types.boolean, versions="1+", default=False)


class CreatableTopicConfigs(Struct):
    """An element of ``CreatableTopicResult.configs``."""

    name: str = field(types.string, versions="5+", default="")
    value: str | None = field(types.string, versions="5+", nullable="5+", default="")
    read_only: bool = field(types.boolean, versions="5+", default=False)
    config_source: int = field(types.int8, versions="5+", ignorable=True, default=-1)
    is_sensitive: bool = field(types.boolean, versions="5+", default=False)


class CreatableTopicResult(Struct):
    """An element of ``CreateTopicsResponse.topics``."""

    name: str = field(types.string, default="")
    topic_id: UUID = field(types.uuid, versions="7+", ignorable=True, default=ZERO_UUID)
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, versions="1+", nullable="0+", ignorable=True, default="")
    topic_config_error_code: int = field(types.int16, versions="5+", tag=0, ignorable=True, default=0)
    num_partitions: int = field(types.int32, versions="5+", ignorable=True, default=-1)
    replication_factor: int = field(types.int16, versions="5+", ignorable=True, default=-1)
    configs: tuple[CreatableTopicConfigs, ...] | None = field(
        types.array(CreatableTopicConfigs), versions="5+", nullable="5+", ignorable=True, default=()
    )


class CreateTopicsResponse(Message, kind="response", api_key=19, versions="2-7", flexible="5+"):
    """Response of API 19, versions 2 to 7."""

    throttle_time_ms: int = field(types.int32, versions="2+", ignorable=True, default=0)
    topics: tuple[CreatableTopicResult, ...] = field(types.array(CreatableTopicResult), default=())
