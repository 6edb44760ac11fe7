"""DescribeProducers (API 61), version 0: who writes to a partition, and who is in a transaction there (KIP-664)."""

from typing import Final

from odradek.gateway.replication.replica import ReplicaGoneError, ReplicaOfflineError
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
    """Describe every partition asked for, in that order."""
    topics = [
        TopicResponse(
            name=topic.name,
            partitions=tuple([await _describe(ctx, topic.name, index) for index in topic.partition_indexes]),
        )
        for topic in request.topics
    ]
    return DescribeProducersResponse(topics=tuple(topics))


async def _describe(ctx: RequestContext, topic: str, index: int) -> PartitionResponse:
    await ctx.take_turns()
    replica = ctx.services.replicas.get(topic, index)
    if replica is None:
        return PartitionResponse(partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    try:
        await replica.ensure_open()
        entries = replica.log.producers
    except ReplicaOfflineError:
        return PartitionResponse(partition_index=index, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    except ReplicaGoneError:
        return PartitionResponse(partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    producers: list[ProducerState] = []
    for producer_id, entry in list(entries.items()):
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
