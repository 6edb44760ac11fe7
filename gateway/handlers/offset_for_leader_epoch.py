"""OffsetForLeaderEpoch (API 23), versions 2 to 4: where a leader epoch ended (KIP-101, KIP-320)."""

from typing import Final

from odradek.gateway.handling.opening import open_all
from odradek.gateway.replication.replica import ReplicaGoneError, ReplicaOfflineError
from odradek.gateway.server.context import RequestContext
from odradek.partitions.results import Rejected
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

REQUEST: Final = OffsetForLeaderEpochRequest


async def handle(ctx: RequestContext, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    """Answer each partition by itself."""
    get = ctx.services.replicas.get
    await open_all(ctx, (get(topic.topic, part.partition) for topic in request.topics for part in topic.partitions))
    topics = [
        OffsetForLeaderTopicResult(
            topic=topic.topic,
            partitions=tuple([await _partition(ctx, topic.topic, part) for part in topic.partitions]),
        )
        for topic in request.topics
    ]
    return OffsetForLeaderEpochResponse(topics=tuple(topics))


async def _partition(ctx: RequestContext, topic: str, part: OffsetForLeaderPartition) -> EpochEndOffset:
    await ctx.take_turns()
    replica = ctx.services.replicas.get(topic, part.partition)
    if replica is None:
        return _error(part, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    try:
        await replica.ensure_open()
        end = replica.log.epoch_end(part.leader_epoch, current_leader_epoch=part.current_leader_epoch)
    except ReplicaOfflineError:
        return _error(part, ErrorCode.KAFKA_STORAGE_ERROR)
    except ReplicaGoneError:
        return _error(part, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if isinstance(end, Rejected):
        return _error(part, end.error)
    return EpochEndOffset(partition=part.partition, leader_epoch=end.leader_epoch, end_offset=end.end_offset)


def _error(part: OffsetForLeaderPartition, error: ErrorCode) -> EpochEndOffset:
    return EpochEndOffset(partition=part.partition, error_code=error, leader_epoch=-1, end_offset=-1)
