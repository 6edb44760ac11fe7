"""WriteTxnMarkers (API 27), versions 1 to 2: end a producer's transaction in partitions of this broker (KIP-98).

Sent by the transaction coordinator of another broker, or by an administrator to end a hanging transaction (KIP-664).
Version 2 contains the transaction.version that the transaction follows, which determines how strictly the epoch is
checked (KIP-1228).
"""

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from odradek.coordinator.contract import Producer
from odradek.coordinator.metadata.topic_names import TRANSACTION_STATE
from odradek.gateway.coordinators.markers import BegunMarker, Marker
from odradek.gateway.env.completion import DONE, Gathered
from odradek.gateway.errors import CoordinatorUnavailable
from odradek.gateway.handling.coordinators import answer_of_coordinator
from odradek.gateway.handling.partitions import answer_of_partition, error_of_partition
from odradek.gateway.handling.together import all_of
from odradek.gateway.replication.replica import Replica
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

EPOCH_JUMP: Final = 1000
"""The difference of epochs by which no coordinator can be ahead of what this broker knows."""
BEGUN_AT_ONCE: Final = 100
"""The number of markers that are appended before other tasks are scheduled."""


class _Asked(NamedTuple):
    """A marker for one partition."""

    marker: Marker
    topic: str
    partition: int


async def handle(ctx: RequestContext, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    """Append all markers, in order where that needs no wait; return when all are committed or refused.

    No append waits for a commit: a coordinator sends markers again when the answer is late, and one that is appended
    only after its copy could end the producer's next transaction. Half of the time after which it is late may pass
    before the last append, and as much until the answer, in which the rest is REQUEST_TIMED_OUT: the coordinator still
    gets the results of the others.
    """
    limit_ms = ctx.services.settings.config.request_timeout_ms // 2
    begun = await _begin_all(ctx, list(_asked(request)), ctx.services.env.monotonic_ms() + limit_ms)
    reply = Gathered([one.committed for one in begun], partial(_response, request, begun))
    if not reply.settled:
        ctx.services.replicas.deadlines.watch(reply, limit_ms, reply.finish)
    return await reply.wait()


async def _begin_all(ctx: RequestContext, asked: Sequence[_Asked], deadline_ms: int) -> Sequence[BegunMarker]:
    """Append the markers; first those that need not wait for a log or a shard."""
    begin = partial(_begin, ctx, deadline_ms)
    begun: dict[int, BegunMarker] = {}
    for number, one in enumerate(asked):
        if _takes_markers(ctx, one):
            begun[number] = await begin(one)
        if not (number + 1) % BEGUN_AT_ONCE:
            await ctx.checkpoint()
    late = [number for number in range(len(asked)) if number not in begun]
    begun.update(zip(late, await all_of(begin, [asked[number] for number in late]), strict=True))
    return [begun[number] for number in range(len(asked))]


def _asked(request: WriteTxnMarkersRequest) -> Iterator[_Asked]:
    for asked in request.markers:
        producer = Producer(asked.producer_id, asked.producer_epoch)
        marker = Marker(producer, asked.transaction_result, asked.coordinator_epoch, asked.transaction_version)
        for topic in asked.topics:
            for index in topic.partition_indexes:
                yield _Asked(marker, topic.name, index)


def _takes_markers(ctx: RequestContext, asked: _Asked) -> bool:
    """True if the marker is appended, or refused, without waiting for a log or a shard."""
    replica = ctx.services.replicas.get(asked.topic, asked.partition)
    return replica is None or ctx.services.transactions.takes_markers(replica)


async def _begin(ctx: RequestContext, deadline_ms: int, asked: _Asked) -> BegunMarker:
    begun = answer_of_partition(_append(ctx, deadline_ms, asked), _refused)
    return await answer_of_coordinator(begun, _refused)


async def _append(ctx: RequestContext, deadline_ms: int, asked: _Asked) -> BegunMarker:
    replica = ctx.services.replicas.find(asked.topic, asked.partition)
    if _is_impossible(ctx, asked.marker, replica):
        log.warning("marker refused partition=%s error=INVALID_REQUEST marker=%s", replica.key, asked.marker)
        return _refused(ErrorCode.INVALID_REQUEST)
    begun = await ctx.services.transactions.begin_marker(replica, asked.marker, deadline_ms)
    if begun.error:
        log.info("marker refused partition=%s error=%s marker=%s", replica.key, begun.error.name, asked.marker)
    return begun


def _is_impossible(ctx: RequestContext, marker: Marker, replica: Replica) -> bool:
    """True if no coordinator has the marker's epoch: it is far above that of every leader of the state topic.

    The partition would refuse all markers of real coordinators afterwards. An epoch that it has already seen is
    accepted, so that an administrator can end a transaction there.
    """
    state_topic = ctx.services.metadata.image.topic(TRANSACTION_STATE)
    leaders = () if state_topic is None else state_topic.partitions
    known_epoch = max([each.leader_epoch for each in leaders], default=0)
    if marker.coordinator_epoch <= known_epoch + EPOCH_JUMP:
        return False
    log_ = replica.open_log
    entry = None if log_ is None else log_.producers.get(marker.producer.producer_id)
    return entry is None or marker.coordinator_epoch > entry.coordinator_epoch


def _refused(error: ErrorCode) -> BegunMarker:
    return BegunMarker(error, DONE)


def _response(request: WriteTxnMarkersRequest, begun: Sequence[BegunMarker]) -> WriteTxnMarkersResponse:
    errors = iter([_outcome(one) for one in begun])
    return WriteTxnMarkersResponse(markers=tuple([_result(marker, errors) for marker in request.markers]))


def _outcome(begun: BegunMarker) -> ErrorCode:
    if not begun.committed.settled:
        return ErrorCode.REQUEST_TIMED_OUT
    failure = begun.committed.error
    if failure is None:
        return begun.error
    return failure.error if isinstance(failure, CoordinatorUnavailable) else error_of_partition(failure)


def _result(asked: WritableTxnMarker, errors: Iterator[ErrorCode]) -> WritableTxnMarkerResult:
    topics = [
        WritableTxnMarkerTopicResult(
            name=topic.name,
            partitions=tuple(
                [
                    WritableTxnMarkerPartitionResult(partition_index=index, error_code=next(errors))
                    for index in topic.partition_indexes
                ]
            ),
        )
        for topic in asked.topics
    ]
    return WritableTxnMarkerResult(producer_id=asked.producer_id, topics=tuple(topics))
