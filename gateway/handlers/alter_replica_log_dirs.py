"""AlterReplicaLogDirs (API 34), versions 1 to 2: there is one directory, and every replica is in it (KIP-113)."""

import logging
from typing import Final

from odradek.gateway.server.context import RequestContext
from odradek.storage_backends.interface import StoreError
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

log = logging.getLogger(__name__)

REQUEST: Final = AlterReplicaLogDirsRequest


async def handle(ctx: RequestContext, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    """Agree to what is the case already; a partition that is named twice belongs where it is named last."""
    try:
        own = (await ctx.services.replicas.space()).location
    except StoreError as error:
        ctx.services.repeats.note("look at the store", log, logging.ERROR, "cannot look at the store cause=%s", error)
        own = None
    results: dict[str, dict[int, ErrorCode]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                results.setdefault(topic.name, {})[index] = _error(ctx, own, directory.path, topic.name, index)
    return AlterReplicaLogDirsResponse(results=tuple(_result(name, errors) for name, errors in results.items()))


def _error(ctx: RequestContext, own: str | None, path: str, topic: str, index: int) -> ErrorCode:
    if own is None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if path != own:
        return ErrorCode.LOG_DIR_NOT_FOUND
    known = ctx.services.metadata.image.partition(topic, index) is not None
    return ErrorCode.NONE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _result(topic: str, errors: dict[int, ErrorCode]) -> AlterReplicaLogDirTopicResult:
    partitions = [
        AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error) for index, error in errors.items()
    ]
    return AlterReplicaLogDirTopicResult(topic_name=topic, partitions=tuple(partitions))
