"""StreamsGroupHeartbeat, API 88: versions 0 to 1, flexible from 0."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field


class KeyValue(Struct):
    """An element of ``TopicInfo.topic_configs``."""

    key: str = field(types.string, default="")
    value: str = field(types.string, default="")


class TopicInfo(Struct):
    """An element of ``Subtopology.state_changelog_topics``."""

    name: str = field(types.string, default="")
    partitions: int = field(types.int32, default=0)
    replication_factor: int = field(types.int16, default=0)
    topic_configs: tuple[KeyValue, ...] = field(types.array(KeyValue), default=())


class CopartitionGroup(Struct):
    """An element of ``Subtopology.copartition_groups``."""

    source_topics: tuple[int, ...] = field(types.array(types.int16), default=())
    source_topic_regex: tuple[int, ...] = field(types.array(types.int16), default=())
    repartition_source_topics: tuple[int, ...] = field(types.array(types.int16), default=())


class Subtopology(Struct):
    """An element of ``Topology.subtopologies``."""

    subtopology_id: str = field(types.string, default="")
    source_topics: tuple[str, ...] = field(types.array(types.string), default=())
    source_topic_regex: tuple[str, ...] = field(types.array(types.string), default=())
    state_changelog_topics: tuple[TopicInfo, ...] = field(types.array(TopicInfo), default=())
    repartition_sink_topics: tuple[str, ...] = field(types.array(types.string), default=())
    repartition_source_topics: tuple[TopicInfo, ...] = field(types.array(TopicInfo), default=())
    copartition_groups: tuple[CopartitionGroup, ...] = field(types.array(CopartitionGroup), default=())


class Topology(Struct):
    """The value of ``StreamsGroupHeartbeatRequest.topology``."""

    epoch: int = field(types.int32, default=0)
    subtopologies: tuple[Subtopology, ...] = field(types.array(Subtopology), default=())


class TaskIds(Struct):
    """An element of ``StreamsGroupHeartbeatRequest.active_tasks``."""

    subtopology_id: str = field(types.string, default="")
    partitions: tuple[int, ...] = field(types.array(types.int32), default=())


class Endpoint(Struct):
    """The value of ``StreamsGroupHeartbeatRequest.user_endpoint``."""

    host: str = field(types.string, default="")
    port: int = field(types.uint16, default=0)


class TaskOffset(Struct):
    """An element of ``StreamsGroupHeartbeatRequest.task_offsets``."""

    subtopology_id: str = field(types.string, default="")
    partition: int = field(types.int32, default=0)
    offset: int = field(types.int64, default=0)


class StreamsGroupHeartbeatRequest(Message, kind="request", api_key=88, versions="0-1", flexible="0+"):
    """Request of API 88, versions 0 to 1."""

    group_id: str = field(types.string, default="")
    member_id: str = field(types.string, default="")
    member_epoch: int = field(types.int32, default=0)
    endpoint_information_epoch: int = field(types.int32, default=0)
    instance_id: str | None = field(types.string, nullable="0+", default=None)
    rack_id: str | None = field(types.string, nullable="0+", default=None)
    rebalance_timeout_ms: int = field(types.int32, default=-1)
    topology: Topology | None = field(Topology, nullable="0+", default=None)
    active_tasks: tuple[TaskIds, ...] | None = field(types.array(TaskIds), nullable="0+", default=None)
    standby_tasks: tuple[TaskIds, ...] | None = field(types.array(TaskIds), nullable="0+", default=None)
    warmup_tasks: tuple[TaskIds, ...] | None = field(types.array(TaskIds), nullable="0+", default=None)
    process_id: str | None = field(types.string, nullable="0+", default=None)
    user_endpoint: Endpoint | None = field(Endpoint, nullable="0+", default=None)
    client_tags: tuple[KeyValue, ...] | None = field(types.array(KeyValue), nullable="0+", default=None)
    task_offsets: tuple[TaskOffset, ...] | None = field(types.array(TaskOffset), nullable="0+", default=None)
    task_end_offsets: tuple[TaskOffset, ...] | None = field(types.array(TaskOffset), nullable="0+", default=None)
    shutdown_application: bool = field(types.boolean, default=False)


class Status(Struct):
    """An element of ``StreamsGroupHeartbeatResponse.status``."""

    status_code: int = field(types.int8, default=0)
    status_detail: str = field(types.string, default="")


class TopicPartition(Struct):
    """An element of ``EndpointToPartitions.active_partitions``."""

    topic: str = field(types.string, default="")
    partitions: tuple[int, ...] = field(types.array(types.int32), default=())


class EndpointToPartitions(Struct):
    """An element of ``StreamsGroupHeartbeatResponse.partitions_by_user_endpoint``."""

    user_endpoint: Endpoint = field(Endpoint, default=Endpoint())
    active_partitions: tuple[TopicPartition, ...] = field(types.array(TopicPartition), default=())
    standby_partitions: tuple[TopicPartition, ...] = field(types.array(TopicPartition), default=())


class StreamsGroupHeartbeatResponse(Message, kind="response", api_key=88, versions="0-1", flexible="0+"):
    """Response of API 88, versions 0 to 1."""

    throttle_time_ms: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default=None)
    member_id: str = field(types.string, default="")
    member_epoch: int = field(types.int32, default=0)
    heartbeat_interval_ms: int = field(types.int32, default=0)
    acceptable_recovery_lag_legacy: int = field(types.int32, versions="0", default=0)
    task_offset_interval_ms: int = field(types.int32, default=0)
    acceptable_recovery_lag: int = field(types.int64, versions="1+", ignorable=True, default=-1)
    status: tuple[Status, ...] | None = field(types.array(Status), nullable="0+", default=())
    active_tasks: tuple[TaskIds, ...] | None = field(types.array(TaskIds), nullable="0+", default=None)
    standby_tasks: tuple[TaskIds, ...] | None = field(types.array(TaskIds), nullable="0+", default=None)
    warmup_tasks: tuple[TaskIds, ...] | None = field(types.array(TaskIds), nullable="0+", default=None)
    topology_description_required: bool = field(types.boolean, versions="1+", default=False)
    endpoint_information_epoch: int = field(types.int32, default=0)
    partitions_by_user_endpoint: tuple[EndpointToPartitions, ...] | None = field(
        types.array(EndpointToPartitions), nullable="0+", default=None
    )
