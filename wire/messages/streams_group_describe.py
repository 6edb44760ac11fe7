"""StreamsGroupDescribe, API 89: versions 0 to 1, flexible from 0."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field


class StreamsGroupDescribeRequest(Message, kind="request", api_key=89, versions="0-1", flexible="0+"):
    """Request of API 89, versions 0 to 1."""

    group_ids: tuple[str, ...] = field(types.array(types.string), default=())
    include_authorized_operations: bool = field(types.boolean, default=False)
    include_topology_description: bool = field(types.boolean, versions="1+", default=False)


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


class Subtopology(Struct):
    """An element of ``Topology.subtopologies``."""

    subtopology_id: str = field(types.string, default="")
    source_topics: tuple[str, ...] = field(types.array(types.string), default=())
    repartition_sink_topics: tuple[str, ...] = field(types.array(types.string), default=())
    state_changelog_topics: tuple[TopicInfo, ...] = field(types.array(TopicInfo), default=())
    repartition_source_topics: tuple[TopicInfo, ...] = field(types.array(TopicInfo), default=())


class Topology(Struct):
    """The value of ``DescribedGroup.topology``."""

    epoch: int = field(types.int32, default=0)
    subtopologies: tuple[Subtopology, ...] | None = field(types.array(Subtopology), nullable="0+", default=None)


class Endpoint(Struct):
    """The value of ``Member.user_endpoint``."""

    host: str = field(types.string, default="")
    port: int = field(types.uint16, default=0)


class TaskOffset(Struct):
    """An element of ``Member.task_offsets``."""

    subtopology_id: str = field(types.string, default="")
    partition: int = field(types.int32, default=0)
    offset: int = field(types.int64, default=0)


class TaskIds(Struct):
    """An element of ``Assignment.active_tasks``."""

    subtopology_id: str = field(types.string, default="")
    partitions: tuple[int, ...] = field(types.array(types.int32), default=())


class Assignment(Struct):
    """The value of ``Member.assignment``."""

    active_tasks: tuple[TaskIds, ...] = field(types.array(TaskIds), default=())
    standby_tasks: tuple[TaskIds, ...] = field(types.array(TaskIds), default=())
    warmup_tasks: tuple[TaskIds, ...] = field(types.array(TaskIds), default=())


class Member(Struct):
    """An element of ``DescribedGroup.members``."""

    member_id: str = field(types.string, default="")
    member_epoch: int = field(types.int32, default=0)
    instance_id: str | None = field(types.string, nullable="0+", default=None)
    rack_id: str | None = field(types.string, nullable="0+", default=None)
    client_id: str = field(types.string, default="")
    client_host: str = field(types.string, default="")
    topology_epoch: int = field(types.int32, default=0)
    process_id: str = field(types.string, default="")
    user_endpoint: Endpoint | None = field(Endpoint, nullable="0+", default=None)
    client_tags: tuple[KeyValue, ...] = field(types.array(KeyValue), default=())
    task_offsets: tuple[TaskOffset, ...] = field(types.array(TaskOffset), default=())
    task_end_offsets: tuple[TaskOffset, ...] = field(types.array(TaskOffset), default=())
    assignment: Assignment = field(Assignment, default=Assignment())
    target_assignment: Assignment = field(Assignment, default=Assignment())
    is_classic: bool = field(types.boolean, default=False)


class TopologyDescriptionNode(Struct):
    """An element of ``TopologyDescriptionSubtopology.nodes``."""

    name: str = field(types.string, versions="1+", default="")
    node_type: int = field(types.int8, versions="1+", default=0)
    source_topics: tuple[str, ...] = field(types.array(types.string), versions="1+", default=())
    sink_topic: str | None = field(types.string, versions="1+", nullable="1+", default=None)
    stores: tuple[str, ...] = field(types.array(types.string), versions="1+", default=())
    successors: tuple[str, ...] = field(types.array(types.string), versions="1+", default=())


class TopologyDescriptionSubtopology(Struct):
    """An element of ``TopologyDescription.subtopologies``."""

    subtopology_id: str = field(types.string, versions="1+", default="")
    nodes: tuple[TopologyDescriptionNode, ...] = field(types.array(TopologyDescriptionNode), versions="1+", default=())


class TopologyDescriptionGlobalStore(Struct):
    """An element of ``TopologyDescription.global_stores``."""

    source: TopologyDescriptionNode = field(TopologyDescriptionNode, versions="1+", default=TopologyDescriptionNode())
    processor: TopologyDescriptionNode = field(
        TopologyDescriptionNode, versions="1+", default=TopologyDescriptionNode()
    )


class TopologyDescription(Struct):
    """The value of ``DescribedGroup.topology_description``."""

    subtopologies: tuple[TopologyDescriptionSubtopology, ...] = field(
        types.array(TopologyDescriptionSubtopology), versions="1+", default=()
    )
    global_stores: tuple[TopologyDescriptionGlobalStore, ...] = field(
        types.array(TopologyDescriptionGlobalStore), versions="1+", default=()
    )


class DescribedGroup(Struct):
    """An element of ``StreamsGroupDescribeResponse.groups``."""

    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default=None)
    group_id: str = field(types.string, default="")
    group_state: str = field(types.string, default="")
    group_epoch: int = field(types.int32, default=0)
    assignment_epoch: int = field(types.int32, default=0)
    topology: Topology | None = field(Topology, nullable="0+", default=None)
    members: tuple[Member, ...] = field(types.array(Member), default=())
    authorized_operations: int = field(types.int32, default=-2147483648)
    topology_description: TopologyDescription | None = field(
        TopologyDescription, versions="1+", nullable="1+", default=None
    )
    topology_description_status: int = field(types.int8, versions="1+", default=0)
    assignor_name: str | None = field(types.string, versions="1+", nullable="1+", ignorable=True, default=None)


class StreamsGroupDescribeResponse(Message, kind="response", api_key=89, versions="0-1", flexible="0+"):
    """Response of API 89, versions 0 to 1."""

    throttle_time_ms: int = field(types.int32, default=0)
    groups: tuple[DescribedGroup, ...] = field(types.array(DescribedGroup), default=())
