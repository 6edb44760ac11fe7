"""Records of ``__consumer_offsets``: committed offsets, classic groups, consumer groups (KIP-848)."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID, Buffer


class OffsetCommitKey(Message, kind="key", api_key=1, versions="0"):
    """Key of record type 1."""

    group: str = field(types.string, versions="0", default="")
    topic: str = field(types.string, versions="0", default="")
    partition: int = field(types.int32, versions="0", default=0)


class OffsetCommitValue(Message, kind="value", api_key=1, versions="0-4", flexible="4+"):
    """Value of record type 1, versions 0 to 4."""

    offset: int = field(types.int64, default=0)
    leader_epoch: int = field(types.int32, versions="3+", ignorable=True, default=-1)
    metadata: str = field(types.string, default="")
    commit_timestamp: int = field(types.int64, default=0)
    expire_timestamp: int = field(types.int64, versions="1", ignorable=True, default=-1)
    topic_id: UUID = field(types.uuid, versions="4+", tag=0, ignorable=True, default=ZERO_UUID)


class LegacyOffsetCommitKey(Message, kind="key", api_key=0, versions="0"):
    """Key of record type 0."""

    group: str = field(types.string, versions="0", default="")
    topic: str = field(types.string, versions="0", default="")
    partition: int = field(types.int32, versions="0", default=0)


class LegacyOffsetCommitValue(Message, kind="value", api_key=0, versions="0"):
    """Value of record type 0, version 0."""

    offset: int = field(types.int64, versions="0", default=0)
    metadata: str = field(types.string, versions="0", default="")
    commit_timestamp: int = field(types.int64, versions="0", default=0)


class GroupMetadataKey(Message, kind="key", api_key=2, versions="0"):
    """Key of record type 2."""

    group: str = field(types.string, versions="0", default="")


class MemberMetadata(Struct):
    """An element of ``GroupMetadataValue.members``."""

    member_id: str = field(types.string, default="")
    group_instance_id: str | None = field(types.string, versions="3+", nullable="3+", ignorable=True, default=None)
    client_id: str = field(types.string, default="")
    client_host: str = field(types.string, default="")
    rebalance_timeout: int = field(types.int32, versions="1+", ignorable=True, default=-1)
    session_timeout: int = field(types.int32, default=0)
    subscription: Buffer = field(types.data, default=b"")
    assignment: Buffer = field(types.data, default=b"")


class GroupMetadataValue(Message, kind="value", api_key=2, versions="0-4", flexible="4+"):
    """Value of record type 2, versions 0 to 4."""

    protocol_type: str = field(types.string, default="")
    generation: int = field(types.int32, default=0)
    protocol: str | None = field(types.string, nullable="0+", default="")
    leader: str | None = field(types.string, nullable="0+", default="")
    current_state_timestamp: int = field(types.int64, versions="2+", ignorable=True, default=-1)
    members: tuple[MemberMetadata, ...] = field(types.array(MemberMetadata), default=())


class ConsumerGroupCurrentMemberAssignmentKey(Message, kind="key", api_key=8, versions="0"):
    """Key of record type 8."""

    group_id: str = field(types.string, versions="0", default="")
    member_id: str = field(types.string, versions="0", default="")


class TopicPartitions(Struct):
    """An element of ``ConsumerGroupCurrentMemberAssignmentValue.assigned_partitions``."""

    topic_id: UUID = field(types.uuid, default=ZERO_UUID)
    partitions: tuple[int, ...] = field(types.array(types.int32), default=())
    assignment_epochs: tuple[int, ...] | None = field(types.array(types.int32), nullable="0+", tag=0, default=None)


class ConsumerGroupCurrentMemberAssignmentValue(Message, kind="value", api_key=8, versions="0", flexible="0+"):
    """Value of record type 8, version 0."""

    member_epoch: int = field(types.int32, default=0)
    previous_member_epoch: int = field(types.int32, default=0)
    state: int = field(types.int8, default=0)
    assigned_partitions: tuple[TopicPartitions, ...] = field(types.array(TopicPartitions), default=())
    partitions_pending_revocation: tuple[TopicPartitions, ...] = field(types.array(TopicPartitions), default=())


class ConsumerGroupMemberMetadataKey(Message, kind="key", api_key=5, versions="0"):
    """Key of record type 5."""

    group_id: str = field(types.string, versions="0", default="")
    member_id: str = field(types.string, versions="0", default="")


class ClassicProtocol(Struct):
    """An element of ``ClassicMemberMetadata.supported_protocols``."""

    name: str = field(types.string, default="")
    metadata: Buffer = field(types.data, default=b"")


class ClassicMemberMetadata(Struct):
    """The value of ``ConsumerGroupMemberMetadataValue.classic_member_metadata``."""

    session_timeout_ms: int = field(types.int32, default=0)
    supported_protocols: tuple[ClassicProtocol, ...] = field(types.array(ClassicProtocol), default=())


class ConsumerGroupMemberMetadataValue(Message, kind="value", api_key=5, versions="0", flexible="0+"):
    """Value of record type 5, version 0."""

    instance_id: str | None = field(types.string, nullable="0+", default="")
    rack_id: str | None = field(types.string, nullable="0+", default="")
    client_id: str = field(types.string, default="")
    client_host: str = field(types.string, default="")
    subscribed_topic_names: tuple[str, ...] = field(types.array(types.string), default=())
    subscribed_topic_regex: str | None = field(types.string, nullable="0+", default="")
    rebalance_timeout_ms: int = field(types.int32, default=-1)
    server_assignor: str | None = field(types.string, nullable="0+", default="")
    classic_member_metadata: ClassicMemberMetadata | None = field(
        ClassicMemberMetadata, nullable="0+", tag=0, default=None
    )


class ConsumerGroupMetadataKey(Message, kind="key", api_key=3, versions="0"):
    """Key of record type 3."""

    group_id: str = field(types.string, versions="0", default="")


class ConsumerGroupMetadataValue(Message, kind="value", api_key=3, versions="0", flexible="0+"):
    """Value of record type 3, version 0."""

    epoch: int = field(types.int32, default=0)
    metadata_hash: int = field(types.int64, tag=0, default=0)


class ConsumerGroupPartitionMetadataKey(Message, kind="key", api_key=4, versions="0"):
    """Key of record type 4."""

    group_id: str = field(types.string, versions="0", default="")


class PartitionMetadata(Struct):
    """An element of ``TopicMetadata.partition_metadata``."""

    partition: int = field(types.int32, default=0)
    racks: tuple[str, ...] = field(types.array(types.string), default=())


class TopicMetadata(Struct):
    """An element of ``ConsumerGroupPartitionMetadataValue.topics``."""

    topic_id: UUID = field(types.uuid, default=ZERO_UUID)
    topic_name: str = field(types.string, default="")
    num_partitions: int = field(types.int32, default=0)
    partition_metadata: tuple[PartitionMetadata, ...] = field(types.array(PartitionMetadata), default=())


class ConsumerGroupPartitionMetadataValue(Message, kind="value", api_key=4, versions="0", flexible="0+"):
    """Value of record type 4, version 0."""

    topics: tuple[TopicMetadata, ...] = field(types.array(TopicMetadata), default=())


class ConsumerGroupRegularExpressionKey(Message, kind="key", api_key=16, versions="0"):
    """Key of record type 16."""

    group_id: str = field(types.string, versions="0", default="")
    regular_expression: str = field(types.string, versions="0", default="")


class ConsumerGroupRegularExpressionValue(Message, kind="value", api_key=16, versions="0", flexible="0+"):
    """Value of record type 16, version 0."""

    topics: tuple[str, ...] = field(types.array(types.string), default=())
    version: int = field(types.int64, default=0)
    timestamp: int = field(types.int64, default=0)


class ConsumerGroupTargetAssignmentMemberKey(Message, kind="key", api_key=7, versions="0"):
    """Key of record type 7."""

    group_id: str = field(types.string, versions="0", default="")
    member_id: str = field(types.string, versions="0", default="")


class TopicPartition(Struct):
    """An element of ``ConsumerGroupTargetAssignmentMemberValue.topic_partitions``."""

    topic_id: UUID = field(types.uuid, default=ZERO_UUID)
    partitions: tuple[int, ...] = field(types.array(types.int32), default=())


class ConsumerGroupTargetAssignmentMemberValue(Message, kind="value", api_key=7, versions="0", flexible="0+"):
    """Value of record type 7, version 0."""

    topic_partitions: tuple[TopicPartition, ...] = field(types.array(TopicPartition), default=())


class ConsumerGroupTargetAssignmentMetadataKey(Message, kind="key", api_key=6, versions="0"):
    """Key of record type 6."""

    group_id: str = field(types.string, versions="0", default="")


class ConsumerGroupTargetAssignmentMetadataValue(Message, kind="value", api_key=6, versions="0", flexible="0+"):
    """Value of record type 6, version 0."""

    assignment_epoch: int = field(types.int32, default=0)
    assignment_timestamp: int = field(types.int64, tag=0, ignorable=True, default=0)
