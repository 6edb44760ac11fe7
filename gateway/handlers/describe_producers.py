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
    """Describe the requested partitions, in their order, each once."""
    asked: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        asked.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    topics = [
        TopicResponse(
            name=name,
            partitions=tuple(
                [await answer_of_partition(_describe(ctx, name, index), partial(_error, index)) for index in indexes]
            ),
        )
        for name, indexes in asked.items()
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
