"""AssignReplicasToDirs, API 73: version 0, flexible from 0."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID


class AssignReplicasToDirsRequestPartitionData(Struct):
    """An element of ``AssignReplicasToDirsRequestTopicData.partitions``."""

    partition_index: int = field(types.int32, default=0)


class AssignReplicasToDirsRequestTopicData(Struct):
    """An element of ``AssignReplicasToDirsRequestDirectoryData.topics``."""

    topic_id: UUID = field(types.uuid, default=ZERO_UUID)
    partitions: tuple[AssignReplicasToDirsRequestPartitionData, ...] = field(
        types.array(AssignReplicasToDirsRequestPartitionData), default=()
    )


class AssignReplicasToDirsRequestDirectoryData(Struct):
    """An element of ``AssignReplicasToDirsRequest.directories``."""

    id: UUID = field(types.uuid, default=ZERO_UUID)
    topics: tuple[AssignReplicasToDirsRequestTopicData, ...] = field(
        types.array(AssignReplicasToDirsRequestTopicData), default=()
    )


class AssignReplicasToDirsRequest(Message, kind="request", api_key=73, versions="0", flexible="0+"):
    """Request of API 73, version 0."""

    broker_id: int = field(types.int32, default=0)
    broker_epoch: int = field(types.int64, default=-1)
    directories: tuple[AssignReplicasToDirsRequestDirectoryData, ...] = field(
        types.array(AssignReplicasToDirsRequestDirectoryData), default=()
    )


class AssignReplicasToDirsResponsePartitionData(Struct):
    """An element of ``AssignReplicasToDirsResponseTopicData.partitions``."""

    partition_index: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)


class AssignReplicasToDirsResponseTopicData(Struct):
    """An element of ``AssignReplicasToDirsResponseDirectoryData.topics``."""

    topic_id: UUID = field(types.uuid, default=ZERO_UUID)
    partitions: tuple[AssignReplicasToDirsResponsePartitionData, ...] = field(
        types.array(AssignReplicasToDirsResponsePartitionData), default=()
    )


class AssignReplicasToDirsResponseDirectoryData(Struct):
    """An element of ``AssignReplicasToDirsResponse.directories``."""

    id: UUID = field(types.uuid, default=ZERO_UUID)
    topics: tuple[AssignReplicasToDirsResponseTopicData, ...] = field(
        types.array(AssignReplicasToDirsResponseTopicData), default=()
    )


class AssignReplicasToDirsResponse(Message, kind="response", api_key=73, versions="0", flexible="0+"):
    """Response of API 73, version 0."""

    throttle_time_ms: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    directories: tuple[AssignReplicasToDirsResponseDirectoryData, ...] = field(
        types.array(AssignReplicasToDirsResponseDirectoryData), default=()
    )
