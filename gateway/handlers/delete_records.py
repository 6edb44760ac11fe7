"""DeleteRecords (API 21), versions 0 to 2: move log starts forward (KIP-107); -1 means the high watermark.

Space is freed when whole segments are below the log start. As in Kafka, the response is sent once the new log start is
durable here and all replicas on active brokers have it, since each of them may be elected; after the request's time-out
it is REQUEST_TIMED_OUT, though the records are deleted here.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from odradek.coordinator.metadata.topic_names import INTERNAL_TOPICS
from odradek.gateway.env.completion import DONE, Completion, Gathered
from odradek.gateway.errors import PartitionUnavailable
from odradek.gateway.handling.partitions import answer_of_partition, error_of_partition
from odradek.gateway.replication.replica import Replica
from odradek.gateway.server.context import RequestContext
from odradek.partitions.results import UNKNOWN_OFFSET, Rejected
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from odradek.wire.values import immutable

REQUEST: Final = DeleteRecordsRequest


@immutable
class _Deleted:
    """One partition's result; or its replica, and the wait for the deletion on other brokers."""

    part: DeleteRecordsPartition
    error: ErrorCode = ErrorCode.NONE
    replica: Replica | None = None
    everywhere: Completion[None] = DONE


async def handle(ctx: RequestContext, request: DeleteRecordsRequest) -> Completion[DeleteRecordsResponse]:
    """Handle each partition separately; the response follows when all are deleted everywhere, or at the time-out."""
    topics = [
        (topic.name, [await _delete(ctx, topic.name, part) for part in topic.partitions]) for topic in request.topics
    ]
    waits = [one.everywhere for _, parts in topics for one in parts]
    reply = Gathered(waits, partial(_response, topics))
    if not reply.settled:
        ctx.services.replicas.deadlines.watch(reply, max(request.timeout_ms, 0), reply.finish)
    return reply


def _response(topics: Sequence[tuple[str, Sequence[_Deleted]]]) -> DeleteRecordsResponse:
    results = [
        DeleteRecordsTopicResult(name=name, partitions=tuple([_result(one) for one in parts])) for name, parts in topics
    ]
    return DeleteRecordsResponse(topics=tuple(results))


async def _delete(ctx: RequestContext, topic: str, part: DeleteRecordsPartition) -> _Deleted:
    await ctx.take_turns()
    if ctx.services.metadata.image.topic(topic) is not None and topic in INTERNAL_TOPICS:
        return _Deleted(part, ErrorCode.INVALID_TOPIC_EXCEPTION)
    return await answer_of_partition(_delete_here(ctx, topic, part), partial(_Deleted, part))


async def _delete_here(ctx: RequestContext, topic: str, part: DeleteRecordsPartition) -> _Deleted:
    replica = await ctx.services.replicas.leader(topic, part.partition_index)
    if not replica.log.config.is_deleted:
        return _Deleted(part, ErrorCode.POLICY_VIOLATION)
    replica.leader  # noqa: B018 - raises unless this broker leads
    refusal = await replica.move_log_start(part.offset)
    if isinstance(refusal, Rejected):
        return _Deleted(part, refusal.error)
    offset = replica.log.log_start_offset if part.offset == UNKNOWN_OFFSET else part.offset
    return _Deleted(part, ErrorCode.NONE, replica, replica.deleted(offset))


def _result(one: _Deleted) -> DeleteRecordsPartitionResult:
    failure = one.everywhere.error if one.everywhere.settled else None
    if one.replica is None or failure is not None:
        return _error(one.part, error_of_partition(failure) if failure is not None else one.error)
    try:
        low_watermark = one.replica.leader.low_watermark
    except PartitionUnavailable as unavailable:
        return _error(one.part, unavailable.error)
    error = ErrorCode.NONE if one.everywhere.settled else ErrorCode.REQUEST_TIMED_OUT
    return DeleteRecordsPartitionResult(
        partition_index=one.part.partition_index, low_watermark=low_watermark, error_code=error
    )


def _error(part: DeleteRecordsPartition, error: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=part.partition_index, low_watermark=UNKNOWN_OFFSET, error_code=error
    )
