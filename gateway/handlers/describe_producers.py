"""DescribeProducers (API 61), version 0: a partition's producers and open transactions (KIP-664)."""

from functools import partial
from typing import Final

from odradek.gateway.handling.partitions import answer_of_partition
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

REQUEST: Final = DescribeProducersRequest


async def handle(ctx: RequestContext, request: DescribeProducersRequest) -> DescribeProducersResponse:
    """Describe the requested partitions, in their order."""
    topics = [
        TopicResponse(
            name=topic.name,
            partitions=tuple(
                [
                    await answer_of_partition(_describe(ctx, topic.name, index), partial(_error, index))
                    for index in topic.partition_indexes
                ]
            ),
        )
        for topic in request.topics
    ]
    return DescribeProducersResponse(topics=tuple(topics))


async def _describe(ctx: RequestContext, topic: str, index: int) -> PartitionResponse:
    await ctx.take_turns()
    replica = await ctx.services.replicas.leader(topic, index)
    producers: list[ProducerState] = []
    for producer_id, entry in list(replica.log.producers.items()):
        await ctx.take_turns()
        state = ProducerState(
            producer_id=producer_id,
            producer_epoch=entry.producer_epoch,
            last_sequence=entry.last_sequence,
            last_timestamp=entry.last_timestamp_ms,
            coordinator_epoch=entry.coordinator_epoch,
            current_txn_start_offset=entry.txn_first_offset,
        )
        producers.append(state)
    return PartitionResponse(partition_index=index, active_producers=tuple(producers))


def _error(index: int, error: ErrorCode) -> PartitionResponse:
    return PartitionResponse(partition_index=index, error_code=error)
