"""Records of ``__consumer_offsets`` about streams groups (KIP-1071)."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field


class StreamsGroupCurrentMemberAssignmentKey(Message, kind="key", api_key=22, versions="0"):
    """Key of record type 22."""

    group_id: str = field(types.string, versions="0", default="")
    member_id: str = field(types.string, versions="0", default="")


class StreamsGroupCurrentMemberAssignmentValueTaskIds(Struct):
    """An element of ``StreamsGroupCurrentMemberAssignmentValue.active_tasks``."""

    subtopology_id: str = field(types.string, default="")
    partitions: tuple[int, ...] = field(types.array(types.int32), default=())
    assignment_epochs: tuple[int, ...] | None = field(types.array(types.int32), nullable="0+", tag=0, default=None)


class StreamsGroupCurrentMemberAssignmentValue(Message, kind="value", api_key=22, versions="0", flexible="0+"):
    """Value of record type 22, version 0."""

    member_epoch: int = field(types.int32, default=0)
    previous_member_epoch: int = field(types.int32, default=0)
    state: int = field(types.int8, default=0)
    active_tasks: tuple[StreamsGroupCurrentMemberAssignmentValueTaskIds, ...] = field(
        types.array(StreamsGroupCurrentMemberAssignmentValueTaskIds), default=()
    )
    standby_tasks: tuple[StreamsGroupCurrentMemberAssignmentValueTaskIds, ...] = field(
        types.array(StreamsGroupCurrentMemberAssignmentValueTaskIds), default=()
    )
    warmup_tasks: tuple[StreamsGroupCurrentMemberAssignmentValueTaskIds, ...] = field(
        types.array(StreamsGroupCurrentMemberAssignmentValueTaskIds), default=()
    )
    active_tasks_pending_revocation: tuple[StreamsGroupCurrentMemberAssignmentValueTaskIds, ...] = field(
        types.array(StreamsGroupCurrentMemberAssignmentValueTaskIds), default=()
    )
    standby_tasks_pending_revocation: tuple[StreamsGroupCurrentMemberAssignmentValueTaskIds, ...] = field(
        types.array(StreamsGroupCurrentMemberAssignmentValueTaskIds), default=()
    )
    warmup_tasks_pending_revocation: tuple[StreamsGroupCurrentMemberAssignmentValueTaskIds, ...] = field(
        types.array(StreamsGroupCurrentMemberAssignmentValueTaskIds), default=()
    )


class StreamsGroupMemberMetadataKey(Message, kind="key", api_key=19, versions="0"):
    """Key of record type 19."""

    group_id: str = field(types.string, versions="0", default="")
    member_id: str = field(types.string, versions="0", default="")


class Endpoint(Struct):
    """The value of ``StreamsGroupMemberMetadataValue.user_endpoint``."""

    host: str = field(types.string, default="")
    port: int = field(types.uint16, default=0)


class KeyValue(Struct):
    """An element of ``StreamsGroupMemberMetadataValue.client_tags``."""

    key: str = field(types.string, default="")
    value: str = field(types.string, default="")


class StreamsGroupMemberMetadataValue(Message, kind="value", api_key=19, versions="0", flexible="0+"):
    """Value of record type 19, version 0."""

    instance_id: str | None = field(types.string, nullable="0+", default="")
    rack_id: str | None = field(types.string, nullable="0+", default="")
    client_id: str = field(types.string, default="")
    client_host: str = field(types.string, default="")
    rebalance_timeout_ms: int = field(types.int32, default=-1)
    topology_epoch: int = field(types.int32, default=0)
    process_id: str = field(types.string, default="")
    user_endpoint: Endpoint | None = field(Endpoint, nullable="0+", default=None)
    client_tags: tuple[KeyValue, ...] = field(types.array(KeyValue), default=())


class StreamsGroupMetadataKey(Message, kind="key", api_key=17, versions="0"):
    """Key of record type 17."""

    group_id: str = field(types.string, versions="0", default="")


class LastAssignmentConfig(Struct):
    """An element of ``StreamsGroupMetadataValue.last_assignment_configs``."""

    key: str = field(types.string, default="")
    value: str = field(types.string, default="")


class StreamsGroupMetadataValue(Message, kind="value", api_key=17, versions="0", flexible="0+"):
    """Value of record type 17, version 0."""

    epoch: int = field(types.int32, default=0)
    metadata_hash: int = field(types.int64, default=0)
    validated_topology_epoch: int = field(types.int32, tag=0, default=-1)
    last_assignment_configs: tuple[LastAssignmentConfig, ...] | None = field(
        types.array(LastAssignmentConfig), nullable="0+", tag=1, default=None
    )


class StreamsGroupTargetAssignmentMemberKey(Message, kind="key", api_key=21, versions="0"):
    """Key of record type 21."""

    group_id: str = field(types.string, versions="0", default="")
    member_id: str = field(types.string, versions="0", default="")


class StreamsGroupTargetAssignmentMemberValueTaskIds(Struct):
    """An element of ``StreamsGroupTargetAssignmentMemberValue.active_tasks``."""

    subtopology_id: str = field(types.string, default="")
    partitions: tuple[int, ...] = field(types.array(types.int32), default=())


class StreamsGroupTargetAssignmentMemberValue(Message, kind="value", api_key=21, versions="0", flexible="0+"):
    """Value of record type 21, version 0."""

    active_tasks: tuple[StreamsGroupTargetAssignmentMemberValueTaskIds, ...] = field(
        types.array(StreamsGroupTargetAssignmentMemberValueTaskIds), default=()
    )
    standby_tasks: tuple[StreamsGroupTargetAssignmentMemberValueTaskIds, ...] = field(
        types.array(StreamsGroupTargetAssignmentMemberValueTaskIds), default=()
    )
    warmup_tasks: tuple[StreamsGroupTargetAssignmentMemberValueTaskIds, ...] = field(
        types.array(StreamsGroupTargetAssignmentMemberValueTaskIds), default=()
    )


class StreamsGroupTargetAssignmentMetadataKey(Message, kind="key", api_key=20, versions="0"):
    """Key of record type 20."""

    group_id: str = field(types.string, versions="0", default="")


class StreamsGroupTargetAssignmentMetadataValue(Message, kind="value", api_key=20, versions="0", flexible="0+"):
    """Value of record type 20, version 0."""

    assignment_epoch: int = field(types.int32, default=0)
    assignment_timestamp: int = field(types.int64, tag=0, ignorable=True, default=0)


class StreamsGroupTopologyKey(Message, kind="key", api_key=23, versions="0"):
    """Key of record type 23."""

    group_id: str = field(types.string, versions="0", default="")


class TopicConfig(Struct):
    """An element of ``TopicInfo.topic_configs``."""

    key: str = field(types.string, default="")
    value: str = field(types.string, default="")


class TopicInfo(Struct):
    """An element of ``Subtopology.state_changelog_topics``."""

    name: str = field(types.string, default="")
    partitions: int = field(types.int32, default=0)
    replication_factor: int = field(types.int16, default=0)
    topic_configs: tuple[TopicConfig, ...] = field(types.array(TopicConfig), default=())


class CopartitionGroup(Struct):
    """An element of ``Subtopology.copartition_groups``."""

    source_topics: tuple[int, ...] = field(types.array(types.int16), default=())
    source_topic_regex: tuple[int, ...] = field(types.array(types.int16), default=())
    repartition_source_topics: tuple[int, ...] = field(types.array(types.int16), default=())


class Subtopology(Struct):
    """An element of ``StreamsGroupTopologyValue.subtopologies``."""

    subtopology_id: str = field(types.string, default="")
    source_topics: tuple[str, ...] = field(types.array(types.string), default=())
    source_topic_regex: tuple[str, ...] = field(types.array(types.string), default=())
    state_changelog_topics: tuple[TopicInfo, ...] = field(types.array(TopicInfo), default=())
    repartition_sink_topics: tuple[str, ...] = field(types.array(types.string), default=())
    repartition_source_topics: tuple[TopicInfo, ...] = field(types.array(TopicInfo), default=())
    copartition_groups: tuple[CopartitionGroup, ...] = field(types.array(CopartitionGroup), default=())


class StreamsGroupTopologyValue(Message, kind="value", api_key=23, versions="0", flexible="0+"):
    """Value of record type 23, version 0."""

    epoch: int = field(types.int32, default=0)
    subtopologies: tuple[Subtopology, ...] = field(types.array(Subtopology), default=())
