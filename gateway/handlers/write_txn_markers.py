"""WriteTxnMarkers (API 27), versions 1 to 2: end a producer's transaction in partitions of this broker (KIP-98).

Sent by the transaction coordinator of another broker, or by an administrator to end a hanging transaction (KIP-664).
Version 2 contains the transaction.version that the transaction follows, which determines how strictly the epoch is
checked (KIP-1228).
"""

import logging
from functools import partial
from typing import Final

from odradek.coordinator.contract import Producer
from odradek.gateway.coordinators.markers import Marker
from odradek.gateway.handling.coordinators import answer_of_coordinator
from odradek.gateway.handling.partitions import answer_of_partition
from odradek.gateway.handling.together import all_of
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

REQUEST: Final = WriteTxnMarkersRequest

log = logging.getLogger(__name__)


async def handle(ctx: RequestContext, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    """Write the markers in order, each into all its partitions concurrently; return when all are committed or refused.

    A marker waits for a commit in each partition; concurrently, these share the time of the disk and the followers.
    """
    return WriteTxnMarkersResponse(markers=tuple([await _write(ctx, asked) for asked in request.markers]))


async def _write(ctx: RequestContext, asked: WritableTxnMarker) -> WritableTxnMarkerResult:
    producer = Producer(asked.producer_id, asked.producer_epoch)
    marker = Marker(producer, asked.transaction_result, asked.coordinator_epoch, asked.transaction_version)
    topic_partitions = [(topic.name, index) for topic in asked.topics for index in topic.partition_indexes]
    errors = iter(await all_of(partial(_error, ctx, marker), topic_partitions))
    topics = [
        WritableTxnMarkerTopicResult(
            name=topic.name,
            partitions=tuple(
                WritableTxnMarkerPartitionResult(partition_index=index, error_code=next(errors))
                for index in topic.partition_indexes
            ),
        )
        for topic in asked.topics
    ]
    return WritableTxnMarkerResult(producer_id=asked.producer_id, topics=tuple(topics))


async def _error(ctx: RequestContext, marker: Marker, topic_partition: tuple[str, int]) -> ErrorCode:
    written = answer_of_partition(_write_into(ctx, *topic_partition, marker), lambda error: error)
    return await answer_of_coordinator(written, lambda error: error)


async def _write_into(ctx: RequestContext, topic: str, index: int, marker: Marker) -> ErrorCode:
    replica = ctx.services.replicas.find(topic, index)
    error = await ctx.services.transactions.write_marker(replica, marker)
    if error:
        log.info("marker refused partition=%s error=%s marker=%s", replica.key, error.name, marker)
    return error
