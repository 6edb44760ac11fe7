"""DescribeLogDirs (API 35), versions 1 to 5: sizes of partitions, and space on the disk (KIP-113, KIP-827).

There is one directory, the store. A partition's size is that of its record batches, as `retention.bytes` counts it.
"""

import logging
from collections.abc import Mapping
from typing import Final

from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.gateway.errors import PartitionUnavailable
from odradek.gateway.handling.partitions import answer_of_store
from odradek.gateway.replication.recovery import shared_cause
from odradek.gateway.replication.replica import Replica
from odradek.gateway.server.context import RequestContext
from odradek.storage_backends.interface import StoreError, StoreSpace
from odradek.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

log = logging.getLogger(__name__)

REQUEST: Final = DescribeLogDirsRequest
UNKNOWN_BYTES: Final = -1


async def handle(ctx: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Describe the requested partitions, or all; partitions that are not on this broker are left out."""
    described = _describe(ctx, request)
    result = await answer_of_store(ctx.services, described, lambda error: DescribeLogDirsResult(error_code=error))
    return DescribeLogDirsResponse(results=(result,))


async def _describe(ctx: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResult:
    """Raises StoreError when the store cannot list its logs."""
    replicas = ctx.services.replicas
    space = await replicas.space()
    stored = {(replica.key.topic, replica.key.index): replica for replica in await replicas.all_stored()}
    topics = [
        DescribeLogDirsTopic(name=name, partitions=tuple(partitions))
        for name, indexes in _asked(ctx.services.metadata.image, request).items()
        if (partitions := await _partitions(ctx, name, indexes, stored))
    ]
    return _result(space, topics)


def _asked(image: MetadataImage, request: DescribeLogDirsRequest) -> dict[str, list[int]]:
    """The existing partitions of those requested, by topic."""
    if request.topics is None:
        return {name: list(range(len(topic.partitions))) for name, topic in image.topics_by_name.items()}
    asked: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        found = [index for index in topic.partitions if image.partition(topic.topic, index) is not None]
        asked.setdefault(topic.topic, {}).update(dict.fromkeys(found))
    return {name: list(indexes) for name, indexes in asked.items()}


def _is_assigned(ctx: RequestContext, topic: str, index: int) -> bool:
    """True if this broker is assigned a replica."""
    part = ctx.services.metadata.image.partition(topic, index)
    return part is not None and ctx.services.config.node_id in part.replicas


async def _partitions(
    ctx: RequestContext, topic: str, indexes: list[int], stored: Mapping[tuple[str, int], Replica]
) -> list[DescribeLogDirsPartition]:
    found: list[DescribeLogDirsPartition] = []
    for index in indexes:
        await ctx.checkpoint()
        replica = stored.get((topic, index))
        if replica is not None:
            described = await _described(replica)
            if described is not None:
                found.append(described)
        elif _is_assigned(ctx, topic, index):  # a log is created when it is first written or read
            found.append(DescribeLogDirsPartition(partition_index=index))
    return found


async def _described(replica: Replica) -> DescribeLogDirsPartition | None:
    """None for a log that cannot be read; Kafka also leaves out the partitions on a failed disk."""
    try:
        view = await replica.view()
    except (PartitionUnavailable, StoreError) as error:
        if isinstance(error, StoreError) or error.is_offline:  # otherwise it was deleted meanwhile
            message = "cannot describe a log partition=%s cause=%s"
            key = (message, shared_cause(error) or replica.key)
            replica.repeats.note(key, log, logging.WARNING, message, replica.key, error)
        return None
    return DescribeLogDirsPartition(
        partition_index=replica.key.index,
        partition_size=sum(segment.size_bytes for segment in view.segments),
        offset_lag=max(view.high_watermark - view.log_end_offset, 0),
    )


def _result(space: StoreSpace, topics: list[DescribeLogDirsTopic]) -> DescribeLogDirsResult:
    return DescribeLogDirsResult(
        log_dir=space.location,
        topics=tuple(topics),
        total_bytes=UNKNOWN_BYTES if space.total_bytes is None else space.total_bytes,
        usable_bytes=UNKNOWN_BYTES if space.usable_bytes is None else space.usable_bytes,
    )
