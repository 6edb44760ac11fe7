"""ImportBatches (API 10001, Odradek's own), version 0: write batches of another log with their offsets.

Mirroring and restoring use it. `partitions/imports.py` specifies the allowed batches. Each partition has its own
result, with its log end offset, or -1 if the log is not available. A client continues from the log end offset, which it
must first look up after -1, and so repeats nothing:

    NONE                  all of it is committed, as with acks=all
    OFFSET_OUT_OF_RANGE   the batches begin below the log end: they, or others, are already in the log
    REQUEST_TIMED_OUT     it is in the log, and may be committed later
    POLICY_VIOLATION      offsets or producer ids of 2⁴⁸ and more, without odradek.import.far.enable
    CORRUPT_MESSAGE, INVALID_RECORD, …   none of the partition's batches was written

Long record sets are written in parts. If a part is refused, because another client has written meanwhile, the parts
before it stay in the log. Producer ids that are allocated later are above all imported ones, so that no producer of
this cluster is confused with one of the other.
"""

from functools import partial
from typing import Final

from odradek.coordinator.metadata.topic_names import INTERNAL_TOPICS
from odradek.gateway.env.completion import Completion, Gathered
from odradek.gateway.errors import PartitionUnavailable, error_of_store
from odradek.gateway.handling.metadata import answer_of_controller
from odradek.gateway.handling.partitions import answer_of_partition
from odradek.gateway.replication.replica import Replica
from odradek.gateway.server.context import RequestContext
from odradek.partitions.imports import (
    ImportedBatch,
    check_not_far,
    in_writes,
    largest_producer_id,
    read_imported_batches,
)
from odradek.partitions.results import UNKNOWN_OFFSET, Rejected
from odradek.storage_backends.interface import StoreError
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.import_batches import (
    ImportBatchesRequest,
    ImportBatchesResponse,
    ImportPartition,
    ImportPartitionResult,
    ImportTopicResult,
)
from odradek.wire.values import immutable

REQUEST: Final = ImportBatchesRequest
LOCAL_COMMIT_MS: Final = 1000
"""The minimum time-out of a commit, as in Produce."""
INSPECTED_AT_ONCE_BYTES: Final = 128 * 1024
"""Longer record sets are parsed and checked in a worker thread."""

NO_RECORDS: Final = memoryview(b"")


@immutable
class _Imported:
    """One partition's result so far, and the commit that it waits for, if any."""

    result: ImportPartitionResult
    commit: Completion[None] | None = None


_Topic = tuple[str, list[_Imported]]


async def handle(ctx: RequestContext, request: ImportBatchesRequest) -> Completion[ImportBatchesResponse]:
    """Append every partition's batches; the response follows when all are committed or failed, or at the time-out."""
    await ctx.services.replicas.backlog.room()
    imported: list[_Topic] = [
        (topic.name, [await _import(ctx, topic.name, part) for part in topic.partitions]) for topic in request.topics
    ]
    commits = [one.commit for _, results in imported for one in results if one.commit is not None]
    reply = Gathered(commits, partial(_response, imported))
    if not reply.settled:
        ctx.services.replicas.deadlines.watch(reply, max(request.timeout_ms, LOCAL_COMMIT_MS), reply.finish)
    return reply


def _response(imported: list[_Topic]) -> ImportBatchesResponse:
    topics = [
        ImportTopicResult(name=name, partitions=tuple([_outcome(one) for one in results])) for name, results in imported
    ]
    return ImportBatchesResponse(topics=tuple(topics))


async def _import(ctx: RequestContext, topic: str, part: ImportPartition) -> _Imported:
    await ctx.take_turns()
    if topic in INTERNAL_TOPICS:  # they contain the coordinators' state
        return _refused(part.index, ErrorCode.INVALID_TOPIC_EXCEPTION)
    return await answer_of_partition(_import_into(ctx, topic, part), partial(_refused, part.index))


async def _import_into(ctx: RequestContext, topic: str, part: ImportPartition) -> _Imported:
    replica = await ctx.services.replicas.leader(topic, part.index)
    replica.leader  # noqa: B018 - raises unless this broker leads
    records = NO_RECORDS if part.records is None else part.records
    batches = await _inspect(ctx, replica, records)
    if isinstance(batches, Rejected):
        return _rejected(part.index, batches, replica.log.log_end_offset)
    refusal = None if ctx.services.config.import_far_enable else check_not_far(batches)
    if refusal is not None:
        return _rejected(part.index, refusal, replica.log.log_end_offset)
    reserved = ctx.services.producer_ids.reserve(largest_producer_id(batches))
    error = await answer_of_controller(reserved, lambda error: error)
    if error is not None:
        return _refused(part.index, error)
    return await _append(ctx, replica, part.index, records, batches)


async def _inspect(ctx: RequestContext, replica: Replica, records: memoryview) -> list[ImportedBatch] | Rejected:
    look = partial(read_imported_batches, records, replica.config)
    return look() if len(records) <= INSPECTED_AT_ONCE_BYTES else await ctx.services.inspection.run(look)


async def _append(
    ctx: RequestContext, replica: Replica, index: int, records: memoryview, batches: list[ImportedBatch]
) -> _Imported:
    leader = replica.leader
    for number, run in enumerate(in_writes(batches, replica.config.segment_bytes)):
        if number:
            await ctx.checkpoint()
            await ctx.services.replicas.backlog.room()
            if replica.leader is not leader:  # reopened, or elected again: the parts before may be lost
                return _refused(index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        taken = replica.take_imported(records, run)
        if isinstance(taken, Rejected):
            return _behind(replica, index, taken)
    end_offset = replica.log.log_end_offset
    return _Imported(ImportPartitionResult(index=index, log_end_offset=end_offset), replica.committed(end_offset))


def _behind(replica: Replica, index: int, rejected: Rejected) -> _Imported:
    """The refusal, once what is in the log is committed: the client continues behind it."""
    end_offset = replica.log.log_end_offset
    refused = _rejected(index, rejected, end_offset)
    if rejected.error is not ErrorCode.OFFSET_OUT_OF_RANGE:
        return refused
    return _Imported(refused.result, replica.committed(end_offset))


def _outcome(imported: _Imported) -> ImportPartitionResult:
    result, commit = imported.result, imported.commit
    if commit is None:
        return result
    if not commit.settled:
        return _with_error(result, ErrorCode.REQUEST_TIMED_OUT, result.log_end_offset)
    if commit.error is None:
        return result
    if isinstance(commit.error, PartitionUnavailable):
        return _with_error(result, commit.error.error, UNKNOWN_OFFSET)
    assert isinstance(commit.error, StoreError)
    return _with_error(result, error_of_store(commit.error), UNKNOWN_OFFSET)


def _with_error(result: ImportPartitionResult, error: ErrorCode, log_end_offset: int) -> ImportPartitionResult:
    return ImportPartitionResult(
        index=result.index, error_code=error, error_message=error.message, log_end_offset=log_end_offset
    )


def _refused(index: int, error: ErrorCode) -> _Imported:
    return _Imported(ImportPartitionResult(index=index, error_code=error, error_message=error.message))


def _rejected(index: int, rejected: Rejected, log_end_offset: int) -> _Imported:
    return _Imported(
        ImportPartitionResult(
            index=index,
            error_code=rejected.error,
            error_message=rejected.message,
            log_end_offset=log_end_offset,
        )
    )
