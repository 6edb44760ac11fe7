"""Produce (API 0), versions 3 to 13; 0 to 2 are advertised for old librdkafka versions and refused (KAFKA-18659).

From 13 on topics have ids (KIP-516): a topic that was deleted and created again does not get records meant for its
predecessor.

The handler is pipelined: when it returns, every batch has its offsets or was refused, and the response is ready once
all batches are as durable as `acks` requires. With acks=0 there is no response; on an error the connection is closed,
as in Kafka.

The first batch of a transaction in a partition is accepted only if the transaction coordinator has the partition in the
transaction (KIP-890); otherwise the batch would never get a marker, and block readers permanently. Up to version 11 the
producer adds the partition (AddPartitionsToTxn); from 12 on the broker adds it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Final, cast
from uuid import UUID

from odradek.coordinator.metadata.topic_names import INTERNAL_TOPICS
from odradek.gateway.coordinators.verification import verified
from odradek.gateway.env.completion import Completion, Gathered, completed
from odradek.gateway.errors import PartitionUnavailable, RequestRefusedError, error_of_store
from odradek.gateway.handling.coordinators import answer_of_coordinator
from odradek.gateway.handling.leader_hints import produce_with_leaders
from odradek.gateway.handling.opening import open_all
from odradek.gateway.handling.partitions import PARTITION_FAILURES, error_of_partition, replica_or_error
from odradek.gateway.replication.replica import Replica, ReplicaState
from odradek.gateway.server.context import RequestContext
from odradek.partitions.results import AppendOrigin, Rejected
from odradek.partitions.transaction_guard import GuardedBatch, VerificationGuard
from odradek.partitions.validation import is_short
from odradek.storage_backends.interface import StoreError
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from odradek.wire.records.batch import HEADER_BYTES, MAGIC_V2, TRANSACTIONAL_FLAG, BatchHeader

if TYPE_CHECKING:
    from odradek.coordinator.transactions.add import ProducerIdentity

REQUEST: Final = ProduceRequest
ALL_IN_SYNC: Final = -1
"""The acks that wait for all in-sync replicas; other acks are answered when this broker has the batch on disk."""
LOCAL_COMMIT_MS: Final = 1000
"""The minimum time-out of a commit.

In Kafka `timeout_ms` begins when the batch is in the leader's log, however long that took; here it begins before, since
the local commit is awaited in the same way.
"""
VALID_ACKS: Final = frozenset({ALL_IN_SYNC, 0, 1})
# Offsets of the fields that show that a batch is transactional, read without parsing the rest of its header.
_MAGIC_AT: Final = 16
_ATTRIBUTES_LOW_AT: Final = 22

_PRODUCER_AT: Final = 43
_PRODUCER: Final = Struct(">qhi")
TOPIC_IDS_SINCE: Final = 13
ABORTABLE_SINCE: Final = 11
"""From this version on, producers know TRANSACTION_ABORTABLE."""
ADDS_PARTITIONS_SINCE: Final = 12
"""From this version on, producers follow transaction.version 2."""

RETRIED: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Errors that producers get as NOT_ENOUGH_REPLICAS, which all versions retry without looking for a new leader."""

WITH_LOG_START: Final = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    }
)
"""Refusals by the log itself with which Kafka returns the log start offset."""

TEMPORARY: Final = frozenset({ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER})
"""Temporary refusals: the partition may soon accept a batch that the producer sent after the refused one."""

EXPECTED: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""The refusals that are no failed produce in the metrics, as in Kafka: they are answered in normal operation, too."""

NO_RECORDS: Final = memoryview(b"")
# Enum members that are needed for each batch: looking one up takes as long as a call.
_OPEN: Final = ReplicaState.OPEN
_CLIENT: Final = AppendOrigin.CLIENT

_TopicPartition = tuple[str, int]
"""Topic and partition."""
_Guards = Mapping[_TopicPartition, VerificationGuard | ErrorCode]
"""For each verified partition, the guard to append with, or the error that refuses the batch."""
_Checked = dict[int, BatchHeader | Rejected]
"""The result of each batch's check in a worker thread, by the identity of its entry in the request."""
_NO_GUARDS: Final[_Guards] = {}
_NOTHING_CHECKED: Final[_Checked] = {}
_Pending = tuple[PartitionProduceResponse, Completion[None] | None]
_Appended = tuple[tuple[str, UUID], list[_Pending]]
"""A topic's name and id, without the request's records: these are not kept in memory while it waits for replicas."""


async def handle(ctx: RequestContext, request: ProduceRequest) -> Completion[ProduceResponse | None]:
    """Append every partition's batch; the response follows when each is as durable as `acks` requires, or failed.

    Batches are appended in the order of the calls. With acks=0 there is no response (None); on an error the completion
    then fails with RequestRefusedError.
    """
    # Each condition is tested here and not within the call: an await that returns at once costs as much as a batch's
    # checksum.
    replicas = ctx.services.replicas
    if replicas.backlog.is_full:
        await replicas.backlog.room()
    if ctx.api_version >= TOPIC_IDS_SINCE:
        request = _with_names(ctx, request)
    topics = request.topic_data
    if len(topics) > 1 or (topics and len(topics[0].partition_data) > 1):
        await open_all(ctx, (replicas.get(topic.name, part.index) for topic in topics for part in topic.partition_data))
    checked, guards = _NOTHING_CHECKED, _NO_GUARDS
    if not _is_plain(request):
        checked = await _check(ctx, request)
        if _has_transactional(request):
            verified = await _verify(ctx, request)
            if isinstance(verified, ErrorCode):
                return completed(_response(ctx, request.acks, _all_refused(request, verified)))
            guards = verified
    appended = [
        ((topic.name, topic.topic_id), await _append_all(ctx, topic, request.acks, guards, checked)) for topic in topics
    ]
    return _when_acknowledged(ctx, request, appended)


async def _append_all(
    ctx: RequestContext, topic: TopicProduceData, acks: int, guards: _Guards, checked: _Checked
) -> list[_Pending]:
    results: list[_Pending] = []
    for part in topic.partition_data:
        if not guards and ctx.is_turn_over():  # no checkpoint between the verification of a transaction and its append
            await ctx.checkpoint()
        replica = _target(ctx, topic, part, acks, guards)
        if isinstance(replica, Replica) and replica.state is not _OPEN:
            replica = await _opened(replica, part)
        if isinstance(replica, ErrorCode):
            results.append(_refused(part, replica))
        else:
            guard = cast("VerificationGuard | None", guards.get((topic.name, part.index))) if guards else None
            results.append(_append(ctx, replica, part, acks, guard, checked.get(id(part))))
    return results


def _when_acknowledged(
    ctx: RequestContext, request: ProduceRequest, appended: list[_Appended]
) -> Completion[ProduceResponse | None]:
    """The response, when every write is as durable as `acks` requires, or failed.

    With acks=all a batch that is not committed after `timeout_ms` is REQUEST_TIMED_OUT, as in Kafka's DelayedProduce,
    and may be committed later.
    """
    writes = [write for _, results in appended for _, write in results if write is not None]
    reply = Gathered(writes, partial(_response, ctx, request.acks, appended))
    if request.acks == ALL_IN_SYNC and not reply.settled:
        ctx.services.replicas.deadlines.watch(reply, max(request.timeout_ms, LOCAL_COMMIT_MS), reply.finish)
    return reply


def _response(ctx: RequestContext, acks: int, appended: list[_Appended]) -> ProduceResponse | None:
    """The response; None with acks=0, which raises RequestRefusedError for an error."""
    responses = tuple(
        [
            TopicProduceResponse(
                name=name, topic_id=topic_id, partition_responses=tuple([_outcome(*one) for one in results])
            )
            for (name, topic_id), results in appended
        ]
    )
    if acks == 0:
        _close_on_error(responses)
        return None
    return produce_with_leaders(
        ProduceResponse(responses=responses), ctx.api_version, ctx.services.metadata.image, ctx.session.listener
    )


def _with_names(ctx: RequestContext, request: ProduceRequest) -> ProduceRequest:
    """The request with the topics' names beside their ids; the name is "" for an id that no topic has."""
    name_of = ctx.services.metadata.topic_name
    topics = [
        TopicProduceData(
            name=name_of(topic.topic_id) or "", topic_id=topic.topic_id, partition_data=topic.partition_data
        )
        for topic in request.topic_data
    ]
    return ProduceRequest(
        transactional_id=request.transactional_id,
        acks=request.acks,
        timeout_ms=request.timeout_ms,
        topic_data=tuple(topics),
    )


async def _check(ctx: RequestContext, request: ProduceRequest) -> _Checked:
    """Check batches that take long in worker threads, before anything is decided for them."""
    checked: _Checked = {}
    for topic in request.topic_data:
        for part in topic.partition_data:
            if part.records is None or is_short(part.records):
                continue
            replica = ctx.services.replicas.get(topic.name, part.index)
            if replica is None:
                continue
            judgement = replica.judgement(part.records, ctx.api_version)
            if judgement is not None:
                checked[id(part)] = await ctx.services.inspection.run(judgement)
    return checked


def _is_transactional(part: PartitionProduceData) -> bool:
    records = part.records
    return (
        records is not None
        and len(records) > _ATTRIBUTES_LOW_AT
        and bool(records[_ATTRIBUTES_LOW_AT] & TRANSACTIONAL_FLAG)
        and records[_MAGIC_AT] == MAGIC_V2
    )


def _is_plain(request: ProduceRequest) -> bool:
    """True, as usual, if no batch is long enough to be checked in a thread or can be transactional; a cheap test."""
    for topic in request.topic_data:
        for part in topic.partition_data:
            records = part.records
            if records is not None and (not is_short(records) or records[_ATTRIBUTES_LOW_AT] & TRANSACTIONAL_FLAG):
                return False
    return True


def _has_transactional(request: ProduceRequest) -> bool:
    return any(_is_transactional(part) for topic in request.topic_data for part in topic.partition_data)


async def _verify(ctx: RequestContext, request: ProduceRequest) -> _Guards | ErrorCode:
    """Verify the partitions in which the transaction has not begun; an error is for the whole request.

    Without a transactional id no batch may be transactional.
    """
    from odradek.coordinator.transactions.add import ProducerIdentity

    if request.transactional_id is None:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    batches = _producers_of(request)
    if len({producer_id for producer_id, _, _ in batches.values()}) > 1:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if not batches:
        return {}
    producer_id, epoch, _ = next(iter(batches.values()))
    producer = ProducerIdentity(request.transactional_id, producer_id, epoch)
    return await verified(
        batches,
        lambda topic_partition: ctx.services.replicas.get(*topic_partition),
        partial(_ask, ctx, producer),
        adds_partition=ctx.api_version >= ADDS_PARTITIONS_SINCE,
    )


def _producers_of(request: ProduceRequest) -> dict[_TopicPartition, GuardedBatch]:
    """The producer of each transactional batch that is long enough to contain one."""
    return {
        (topic.name, part.index): GuardedBatch(*_PRODUCER.unpack_from(part.records, _PRODUCER_AT))
        for topic in request.topic_data
        for part in topic.partition_data
        if part.records is not None and _is_transactional(part) and len(part.records) >= HEADER_BYTES
    }


async def _ask(
    ctx: RequestContext, producer: "ProducerIdentity", topic_partitions: Sequence[_TopicPartition]
) -> Mapping[_TopicPartition, ErrorCode]:
    """The coordinator's result for each partition, as an error that the request's version has."""
    partitions: dict[str, frozenset[int]] = {}
    for topic, index in topic_partitions:
        partitions[topic] = partitions.get(topic, frozenset()) | {index}
    transactions = ctx.services.transactions
    ask = transactions.add_for_write if ctx.api_version >= ADDS_PARTITIONS_SINCE else transactions.verify
    errors = await answer_of_coordinator(
        ask(producer, partitions), lambda _: dict.fromkeys(topic_partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    )
    return {topic_partition: _for_producers(error, ctx.api_version) for topic_partition, error in errors.items()}


def _for_producers(error: ErrorCode, api_version: int) -> ErrorCode:
    """The code on which a producer of this version reacts correctly: older ones retry only on few errors."""
    if error is ErrorCode.TRANSACTION_ABORTABLE and api_version < ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    return ErrorCode.NOT_ENOUGH_REPLICAS if error in RETRIED else error


def _all_refused(request: ProduceRequest, error: ErrorCode) -> list[_Appended]:
    return [
        ((topic.name, topic.topic_id), [_refused(part, error) for part in topic.partition_data])
        for topic in request.topic_data
    ]


def _target(
    ctx: RequestContext, asked: TopicProduceData, part: PartitionProduceData, acks: int, guards: _Guards
) -> Replica | ErrorCode:
    """The replica to append to, its log open or not, or the error if the batch is refused without being examined."""
    if acks not in VALID_ACKS:
        return ErrorCode.INVALID_REQUIRED_ACKS
    if asked.name in INTERNAL_TOPICS:  # they contain the coordinators' state
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    replica = _find(ctx, asked, part.index)
    if guards and not isinstance(replica, ErrorCode):
        guard = guards.get((asked.name, part.index))
        if isinstance(guard, ErrorCode):
            if guard in TEMPORARY:  # the partition was unavailable when the verification began
                replica.note_refused(part.records or NO_RECORDS)
            return guard
    return replica


async def _opened(replica: Replica, part: PartitionProduceData) -> Replica | ErrorCode:
    try:
        await replica.ensure_open()
    except PARTITION_FAILURES as failure:
        return _failure(replica, part, failure)
    return replica


def _append(
    ctx: RequestContext,
    replica: Replica,
    part: PartitionProduceData,
    acks: int,
    guard: VerificationGuard | None,
    checked: BatchHeader | Rejected | None,
) -> _Pending:
    try:
        result = replica.append(
            part.records or NO_RECORDS,
            _CLIENT,
            api_version=ctx.api_version,
            guard=guard,
            checked=checked,
            all_in_sync=acks == ALL_IN_SYNC,
        )
        log_start_offset = replica.log.log_start_offset
        if isinstance(result, Rejected):
            _count_refused(replica, result.error)
            if result.error is ErrorCode.NOT_ENOUGH_REPLICAS:
                replica.note_refused(part.records or NO_RECORDS)
            return _rejection(part.index, result, log_start_offset), None
        end_offset = result.last_offset + 1
        replica.traffic.produced(end_offset - result.base_offset, len(part.records or NO_RECORDS))
        write = replica.committed(end_offset) if acks == ALL_IN_SYNC else replica.durable(end_offset)
    except PARTITION_FAILURES as failure:
        return _refused(part, _failure(replica, part, failure))
    response = PartitionProduceResponse(
        index=part.index,
        base_offset=result.base_offset,
        log_append_time_ms=result.log_append_time_ms,
        log_start_offset=log_start_offset,
    )
    return response, write


def _failure(replica: Replica, part: PartitionProduceData, failure: Exception) -> ErrorCode:
    """The error code for a failure of the log or its role. Records the refused batch if the failure is temporary."""
    error = error_of_partition(failure)
    _count_refused(replica, error)
    if error in TEMPORARY:
        replica.note_refused(part.records or NO_RECORDS)
    return error


def _count_refused(replica: Replica, error: ErrorCode) -> None:
    if error in EXPECTED:
        replica.traffic.produces += 1
    else:
        replica.traffic.refused()


def _find(ctx: RequestContext, asked: TopicProduceData, index: int) -> Replica | ErrorCode:
    if ctx.api_version < TOPIC_IDS_SINCE:
        return ctx.services.replicas.get(asked.name, index) or replica_or_error(ctx.services, asked.name, index)
    found = replica_or_error(ctx.services, asked.name or None, index, asked.topic_id)
    # the topic was created again meanwhile: as in Kafka, producers look up the id again
    return ErrorCode.UNKNOWN_TOPIC_ID if found is ErrorCode.INCONSISTENT_TOPIC_ID else found


def _refused(part: PartitionProduceData, error: ErrorCode) -> _Pending:
    return _refusal(part.index, error), None


def _refusal(index: int, error: ErrorCode) -> PartitionProduceResponse:
    return PartitionProduceResponse(index=index, error_code=error, base_offset=-1)


def _rejection(index: int, rejected: Rejected, log_start_offset: int) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=rejected.error,
        base_offset=-1,
        log_start_offset=log_start_offset if rejected.error in WITH_LOG_START else -1,
        record_errors=tuple(
            BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=message)
            for at, message in rejected.record_errors
        ),
        error_message=rejected.message,
    )


def _outcome(response: PartitionProduceResponse, write: Completion[None] | None) -> PartitionProduceResponse:
    if write is None or (write.settled and write.error is None):
        return response
    if not write.settled:
        return replace(response, error_code=ErrorCode.REQUEST_TIMED_OUT)
    if isinstance(write.error, PartitionUnavailable):
        return _refusal(response.index, write.error.error)
    assert isinstance(write.error, StoreError)
    return _refusal(response.index, error_of_store(write.error))


def _close_on_error(responses: tuple[TopicProduceResponse, ...]) -> None:
    for topic in responses:
        for part in topic.partition_responses:
            if part.error_code:
                error = ErrorCode(part.error_code)
                raise RequestRefusedError(f"{error.name} for {topic.name!r}-{part.index} with acks=0")
