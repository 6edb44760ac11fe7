"""Records of ``__consumer_offsets`` about share groups (KIP-932)."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID


class ShareGroupCurrentMemberAssignmentKey(Message, kind="key", api_key=14, versions="0"):
    """Key of record type 14."""

    group_id: str = field(types.string, versions="0", default="")
    member_id: str = field(types.string, versions="0", default="")


class TopicPartitions(Struct):
    """An element of ``ShareGroupCurrentMemberAssignmentValue.assigned_partitions``."""

    topic_id: UUID = field(types.uuid, default=ZERO_UUID)
    partitions: tuple[int, ...] = field(types.array(types.int32), default=())


class ShareGroupCurrentMemberAssignmentValue(Message, kind="value", api_key=14, versions="0", flexible="0+"):
    """Value of record type 14, version 0."""

    member_epoch: int = field(types.int32, default=0)
    previous_member_epoch: int = field(types.int32, default=0)
    state: int = field(types.int8, default=0)
    assigned_partitions: tuple[TopicPartitions, ...] = field(types.array(TopicPartitions), default=())


class ShareGroupMemberMetadataKey(Message, kind="key", api_key=10, versions="0"):
    """Key of record type 10."""

    group_id: str = field(types.string, versions="0", default="")
    member_id: str = field(types.string, versions="0", default="")


class ShareGroupMemberMetadataValue(Message, kind="value", api_key=10, versions="0", flexible="0+"):
    """Value of record type 10, version 0."""

    rack_id: str | None = field(types.string, nullable="0+", default="")
    client_id: str = field(types.string, default="")
    client_host: str = field(types.string, default="")
    subscribed_topic_names: tuple[str, ...] = field(types.array(types.string), default=())


class ShareGroupMetadataKey(Message, kind="key", api_key=11, versions="0"):
    """Key of record type 11."""

    group_id: str = field(types.string, versions="0", default="")


class ShareGroupMetadataValue(Message, kind="value", api_key=11, versions="0", flexible="0+"):
    """Value of record type 11, version 0."""

    epoch: int = field(types.int32, default=0)
    metadata_hash: int = field(types.int64, default=0)


class ShareGroupStatePartitionMetadataKey(Message, kind="key", api_key=15, versions="0"):
    """Key of record type 15."""

    group_id: str = field(types.string, versions="0", default="")


class TopicPartitionsInfo(Struct):
    """An element of ``ShareGroupStatePartitionMetadataValue.initializing_topics``."""

    topic_id: UUID = field(types.uuid, default=ZERO_UUID)
    topic_name: str = field(types.string, default="")
    partitions: tuple[int, ...] = field(types.array(types.int32), default=())


class TopicInfo(Struct):
    """An element of ``ShareGroupStatePartitionMetadataValue.deleting_topics``."""

    topic_id: UUID = field(types.uuid, default=ZERO_UUID)
    topic_name: str = field(types.string, default="")


class ShareGroupStatePartitionMetadataValue(Message, kind="value", api_key=15, versions="0", flexible="0+"):
    """Value of record type 15, version 0."""

    initializing_topics: tuple[TopicPartitionsInfo, ...] = field(types.array(TopicPartitionsInfo), default=())
    initialized_topics: tuple[TopicPartitionsInfo, ...] = field(types.array(TopicPartitionsInfo), default=())
    deleting_topics: tuple[TopicInfo, ...] = field(types.array(TopicInfo), default=())


class ShareGroupTargetAssignmentMemberKey(Message, kind="key", api_key=13, versions="0"):
    """Key of record type 13."""

    group_id: str = field(types.string, versions="0", default="")
    member_id: str = field(types.string, versions="0", default="")


class TopicPartition(Struct):
    """An element of ``ShareGroupTargetAssignmentMemberValue.topic_partitions``."""

    topic_id: UUID = field(types.uuid, default=ZERO_UUID)
    partitions: tuple[int, ...] = field(types.array(types.int32), default=())


class ShareGroupTargetAssignmentMemberValue(Message, kind="value", api_key=13, versions="0", flexible="0+"):
    """Value of record type 13, version 0."""

    topic_partitions: tuple[TopicPartition, ...] = field(types.array(TopicPartition), default=())


class ShareGroupTargetAssignmentMetadataKey(Message, kind="key", api_key=12, versions="0"):
    """Key of record type 12."""

    group_id: str = field(types.string, versions="0", default="")


class ShareGroupTargetAssignmentMetadataValue(Message, kind="value", api_key=12, versions="0", flexible="0+"):
    """Value of record type 12, version 0."""

    assignment_epoch: int = field(types.int32, default=0)
    assignment_timestamp: int = field(types.int64, tag=0, ignorable=True, default=0)
