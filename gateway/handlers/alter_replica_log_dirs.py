"""AlterReplicaLogDirs (API 34), versions 1 to 2: there is one directory, and every replica is in it (KIP-113)."""

from typing import Final

from odradek.gateway.handling.partitions import answer_of_store
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

REQUEST: Final = AlterReplicaLogDirsRequest


async def handle(ctx: RequestContext, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    """Accept a move to the directory that the replica is in. If a partition is listed twice, the last entry counts."""
    own = await answer_of_store(ctx.services, _own(ctx), lambda error: error)
    results: dict[str, dict[int, ErrorCode]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                results.setdefault(topic.name, {})[index] = _error(ctx, own, directory.path, topic.name, index)
    return AlterReplicaLogDirsResponse(results=tuple(_result(name, errors) for name, errors in results.items()))


async def _own(ctx: RequestContext) -> str | ErrorCode:
    return (await ctx.services.replicas.space()).location


def _error(ctx: RequestContext, own: str | ErrorCode, path: str, topic: str, index: int) -> ErrorCode:
    if isinstance(own, ErrorCode):
        return own
    if path != own:
        return ErrorCode.LOG_DIR_NOT_FOUND
    partition = ctx.services.metadata.image.partition(topic, index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    is_here = ctx.services.config.node_id in partition.replicas
    return ErrorCode.NONE if is_here else ErrorCode.REPLICA_NOT_AVAILABLE


def _result(topic: str, errors: dict[int, ErrorCode]) -> AlterReplicaLogDirTopicResult:
    partitions = [
        AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error) for index, error in errors.items()
    ]
    return AlterReplicaLogDirTopicResult(topic_name=topic, partitions=tuple(partitions))
