"""WriteTxnMarkers (API 27), versions 1 to 2: end a producer's transaction in partitions of this broker (KIP-98).

The transaction coordinator of another broker sends it, and an administrator who ends a hanging transaction (KIP-664).
Version 2 says which transaction.version the transaction follows, and so how strictly the epoch is judged (KIP-1228).
"""

import logging
from typing import Final

from odradek.coordinator.contract import Producer
from odradek.gateway.coordinators.markers import Marker
from odradek.gateway.handling.coordinators import answer_of_coordinator
from odradek.gateway.handling.partitions import answer_of_partition
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
    """Write the markers in the order asked; each is on disk, or refused, when this returns."""
    return WriteTxnMarkersResponse(markers=tuple([await _write(ctx, asked) for asked in request.markers]))


async def _write(ctx: RequestContext, asked: WritableTxnMarker) -> WritableTxnMarkerResult:
    producer = Producer(asked.producer_id, asked.producer_epoch)
    marker = Marker(producer, asked.transaction_result, asked.coordinator_epoch, asked.transaction_version)
    topics: list[WritableTxnMarkerTopicResult] = []
    for topic in asked.topics:
        parts = [
            WritableTxnMarkerPartitionResult(
                partition_index=index, error_code=await _error(ctx, topic.name, index, marker)
            )
            for index in topic.partition_indexes
        ]
        topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=tuple(parts)))
    return WritableTxnMarkerResult(producer_id=asked.producer_id, topics=tuple(topics))


async def _error(ctx: RequestContext, topic: str, index: int, marker: Marker) -> ErrorCode:
    written = answer_of_partition(_write_into(ctx, topic, index, marker), lambda error: error)
    return await answer_of_coordinator(written, lambda error: error)


async def _write_into(ctx: RequestContext, topic: str, index: int, marker: Marker) -> ErrorCode:
    replica = ctx.services.replicas.find(topic, index)
    error = await ctx.services.transactions.write_marker(replica, marker)
    if error:
        log.info("marker refused partition=%s error=%s marker=%s", replica.key, error.name, marker)
    return error
