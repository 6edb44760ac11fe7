"""OffsetForLeaderEpoch (API 23), versions 2 to 4: the end offset of a leader epoch (KIP-101, KIP-320)."""

from functools import partial
from typing import Final

from odradek.gateway.handling.opening import open_all
from odradek.gateway.handling.partitions import answer_of_partition
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
    """Handle each partition separately."""
    get = ctx.services.replicas.get
    await open_all(ctx, (get(topic.topic, part.partition) for topic in request.topics for part in topic.partitions))
    topics = [
        OffsetForLeaderTopicResult(
            topic=topic.topic,
            partitions=tuple(
                [
                    await answer_of_partition(_end(ctx, topic.topic, part), partial(_error, part))
                    for part in topic.partitions
                ]
            ),
        )
        for topic in request.topics
    ]
    return OffsetForLeaderEpochResponse(topics=tuple(topics))


async def _end(ctx: RequestContext, topic: str, part: OffsetForLeaderPartition) -> EpochEndOffset:
    await ctx.take_turns()
    replica = await ctx.services.replicas.leader(topic, part.partition)
    end = replica.role.epoch_end(part.leader_epoch, current_leader_epoch=part.current_leader_epoch)
    if isinstance(end, Rejected):
        return _error(part, end.error)
    return EpochEndOffset(partition=part.partition, leader_epoch=end.leader_epoch, end_offset=end.end_offset)


def _error(part: OffsetForLeaderPartition, error: ErrorCode) -> EpochEndOffset:
    return EpochEndOffset(partition=part.partition, error_code=error, leader_epoch=-1, end_offset=-1)
