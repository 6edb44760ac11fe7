"""AlterReplicaLogDirs, API 34: versions 1 to 2, flexible from 2."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field


class AlterReplicaLogDirTopic(Struct):
    """An element of ``AlterReplicaLogDir.topics``."""

    name: str = field(types.string, default="")
    partitions: tuple[int, ...] = field(types.array(types.int32), default=())


class AlterReplicaLogDir(Struct):
    """An element of ``AlterReplicaLogDirsRequest.dirs``."""

    path: str = field(types.string, default="")
    topics: tuple[AlterReplicaLogDirTopic, ...] = field(types.array(AlterReplicaLogDirTopic), default=())


class AlterReplicaLogDirsRequest(Message, kind="request", api_key=34, versions="1-2", flexible="2+"):
    """Request of API 34, versions 1 to 2."""

    dirs: tuple[AlterReplicaLogDir, ...] = field(types.array(AlterReplicaLogDir), default=())


class AlterReplicaLogDirPartitionResult(Struct):
    """An element of ``AlterReplicaLogDirTopicResult.partitions``."""

    partition_index: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)


class AlterReplicaLogDirTopicResult(Struct):
    """An element of ``AlterReplicaLogDirsResponse.results``."""

    topic_name: str = field(types.string, default="")
    partitions: tuple[AlterReplicaLogDirPartitionResult, ...] = field(
        types.array(AlterReplicaLogDirPartitionResult), default=()
    )


class AlterReplicaLogDirsResponse(Message, kind="response", api_key=34, versions="1-2", flexible="2+"):
    """Response of API 34, versions 1 to 2."""

    throttle_time_ms: int = field(types.int32, default=0)
    results: tuple[AlterReplicaLogDirTopicResult, ...] = field(types.array(AlterReplicaLogDirTopicResult), default=())
