"""Produce (API 0), versions 3 to 13; 0 to 2 are advertised for old librdkafka's sake and refused (KAFKA-18659).

From 13 on topics are named by id (KIP-516): a topic that was deleted and created again does not get its predecessor's
records.

The handler is pipelined: when it returns, every batch has its offsets or its refusal, and what it returns is ready once
all of it is on disk. With acks=0 there is no response; on an error the connection is closed, as Kafka does.

The first batch of a transaction in a partition goes in only if the transaction coordinator knows that the partition
is in the transaction (KIP-890): without that the batch would never get a marker, and block readers for ever. Up to
version 11 the producer adds the partition itself (AddPartitionsToTxn); from 12 on the broker adds it itself.
"""

from collections.abc import Mapping
from struct import Struct
from typing import TYPE_CHECKING, Final

from odradek.coordinator.metadata.controller.names import INTERNAL_TOPICS
from odradek.gateway.env.completion import Completion, all_settled, completed
from odradek.gateway.errors import CoordinatorUnavailable, PartitionUnavailable, RequestRefusedError, error_of_store
from odradek.gateway.handling.leader_hints import produce_with_leaders
from odradek.gateway.handling.opening import open_all
from odradek.gateway.replication.replica import ReplicaState
from odradek.gateway.server.context import RequestContext
from odradek.partitions.producers import VerificationGuard
from odradek.partitions.results import Appended, AppendOrigin, Duplicate, Rejected
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
VALID_ACKS: Final = frozenset({-1, 0, 1})
# Where a batch says that it is transactional, read without parsing the rest of its header.
_MAGIC_AT: Final = 16
_ATTRIBUTES_LOW_AT: Final = 22

_PRODUCER_AT: Final = 43
_PRODUCER: Final = Struct(">qhi")
TOPIC_IDS_SINCE: Final = 13
ABORTABLE_SINCE: Final = 11
"""From this version a producer knows TRANSACTION_ABORTABLE."""
ADDS_PARTITIONS_SINCE: Final = 12
"""From this version a producer follows transaction.version 2."""

NOT_NOW: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""What a producer is told as NOT_ENOUGH_REPLICAS, which every version tries again without looking for a new leader."""

OF_THE_PRODUCER: Final = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH})
"""Refusals for what the log knows of the producer, beside which Kafka tells where the log starts."""

_Asking = tuple[int, int, int]
"""Producer id, epoch and sequence of a batch whose partition the coordinator is asked about."""
_Guards = dict[tuple[str, int], VerificationGuard | ErrorCode]
"""For each (topic, partition) that had to be asked about, the guard to append with, or what the coordinator said."""
_Judged = dict[int, BatchHeader | Rejected]
"""What was said of each batch that had to be looked into in a thread, by the identity of its place in the request."""
_Pending = tuple[PartitionProduceResponse, Completion[None] | None]
_Appended = tuple[TopicProduceData, list[_Pending]]


async def handle(ctx: RequestContext, request: ProduceRequest) -> Completion[ProduceResponse | None]:
    """Append every partition's batch; the response comes when all that was appended is durable, or has failed.

    Batches are appended in the order of the calls. With acks=0 there is no response (None); for an error then the
    completion fails with RequestRefusedError.
    """
    await ctx.services.replicas.backlog.room()
    if ctx.api_version >= TOPIC_IDS_SINCE:
        request = _with_names(ctx, request)
    if sum([len(topic.partition_data) for topic in request.topic_data]) > 1:
        get = ctx.services.replicas.get
        await open_all(
            ctx, (get(topic.name, part.index) for topic in request.topic_data for part in topic.partition_data)
        )
    judged = await _judge(ctx, request)
    guards: _Guards = {}
    if _has_transactional(request):
        verified = await _verify(ctx, request)
        if isinstance(verified, ErrorCode):
            return completed(_response(ctx, request.acks, _all_refused(request, verified)))
        guards = verified
    appended: list[_Appended] = []
    for topic in request.topic_data:
        results = [await _append(ctx, topic, part, request.acks, guards, judged) for part in topic.partition_data]
        appended.append((topic, results))
    writes = [write for _, results in appended for _, write in results if write is not None]
    return all_settled(writes).then(lambda _: _response(ctx, request.acks, appended))


def _response(ctx: RequestContext, acks: int, appended: list[_Appended]) -> ProduceResponse | None:
    """None with acks=0. Raises RequestRefusedError for an error then."""
    responses = tuple(
        [
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=tuple([_outcome(*one) for one in results]),
            )
            for topic, results in appended
        ]
    )
    if acks == 0:
        _close_on_error(responses)
        return None
    return produce_with_leaders(
        ProduceResponse(responses=responses), ctx.api_version, ctx.services.metadata.image, ctx.listener
    )


def _with_names(ctx: RequestContext, request: ProduceRequest) -> ProduceRequest:
    """The request with the topics' names beside their ids; an id that no topic has gets the name of none, ""."""
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


async def _judge(ctx: RequestContext, request: ProduceRequest) -> _Judged:
    """Look into the batches where that takes long, in threads; before anything is asked or decided for them."""
    judged: _Judged = {}
    for topic in request.topic_data:
        for part in topic.partition_data:
            replica = ctx.services.replicas.get(topic.name, part.index)
            if replica is None or part.records is None:
                continue
            judgement = replica.judgement(part.records, ctx.api_version)
            if judgement is not None:
                judged[id(part)] = await ctx.services.inspection.run(judgement)
    return judged


def _is_transactional(part: PartitionProduceData) -> bool:
    records = part.records
    return (
        records is not None
        and len(records) > _ATTRIBUTES_LOW_AT
        and bool(records[_ATTRIBUTES_LOW_AT] & TRANSACTIONAL_FLAG)
        and records[_MAGIC_AT] == MAGIC_V2
    )


def _has_transactional(request: ProduceRequest) -> bool:
    return any(_is_transactional(part) for topic in request.topic_data for part in topic.partition_data)


async def _verify(ctx: RequestContext, request: ProduceRequest) -> _Guards | ErrorCode:
    """Ask the coordinator about the partitions where the transaction has not begun; an error is for the whole request.

    Without a transactional id nobody may write in a transaction.
    """
    from odradek.coordinator.transactions.add import ProducerIdentity

    if request.transactional_id is None:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    batches = _producers_of(request)
    if len({producer_id for producer_id, _, _ in batches.values()}) > 1:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    while True:
        guards: _Guards = {}
        for place, producer in batches.items():
            guard = await _guard(ctx, place, producer)
            if guard is not None:
                guards[place] = guard
        if guards:
            producer_id, epoch, _ = next(iter(batches.values()))
            await _ask(ctx, ProducerIdentity(request.transactional_id, producer_id, epoch), guards)
        if not any(_is_overtaken(ctx, place, batches[place], guard) for place, guard in guards.items()):
            return guards


def _is_overtaken(
    ctx: RequestContext, place: tuple[str, int], producer: _Asking, guard: VerificationGuard | ErrorCode
) -> bool:
    """Whether a marker of the transaction before came between the guard and the answer, which was yes.

    The question is asked again then: it ends, since from a yes on only this transaction's own end writes markers.
    """
    replica = ctx.services.replicas.get(*place)
    if isinstance(guard, ErrorCode) or replica is None or replica.state is not ReplicaState.OPEN:
        return False
    return replica.leader.is_overtaken(producer[0], guard)


def _producers_of(request: ProduceRequest) -> dict[tuple[str, int], _Asking]:
    """(topic, partition) to (producer id, epoch, sequence) of each transactional batch long enough to have them."""
    return {
        (topic.name, part.index): _PRODUCER.unpack_from(part.records, _PRODUCER_AT)
        for topic in request.topic_data
        for part in topic.partition_data
        if part.records is not None and _is_transactional(part) and len(part.records) >= HEADER_BYTES
    }


async def _guard(
    ctx: RequestContext, place: tuple[str, int], producer: _Asking
) -> VerificationGuard | ErrorCode | None:
    """What to bracket the question with; None where none is due, or the partition will refuse the batch anyway.

    An error for an epoch that has passed: the coordinator need not be asked.
    """
    replica = ctx.services.replicas.get(*place)
    if replica is None:
        return None
    try:
        await replica.ensure_open()
        leader = replica.leader
    except PartitionUnavailable:
        return None
    guard = leader.verification(*producer, adds_partition=ctx.api_version >= ADDS_PARTITIONS_SINCE)
    refusal = None if guard is None else leader.check_transactional(*producer[:2], guard)
    return guard if refusal is None else refusal.error


async def _ask(ctx: RequestContext, producer: "ProducerIdentity", guards: _Guards) -> None:
    """Put the error in place of the guard wherever the coordinator says no."""
    partitions: dict[str, frozenset[int]] = {}
    for (topic, index), guard in guards.items():
        if isinstance(guard, VerificationGuard):
            partitions[topic] = partitions.get(topic, frozenset()) | {index}
    if not partitions:
        return
    try:
        results = await _verified(ctx, producer, partitions)
    except CoordinatorUnavailable:
        unanswered = [(topic, index) for topic, indexes in partitions.items() for index in indexes]
        results = dict.fromkeys(unanswered, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    for place, error in results.items():
        if error:
            guards[place] = _as_told(error, ctx.api_version)


async def _verified(
    ctx: RequestContext, producer: "ProducerIdentity", partitions: dict[str, frozenset[int]]
) -> Mapping[tuple[str, int], ErrorCode]:
    if ctx.api_version >= ADDS_PARTITIONS_SINCE:
        return await ctx.services.transactions.add_for_write(producer, partitions)
    return await ctx.services.transactions.verify(producer, partitions)


def _as_told(error: ErrorCode, api_version: int) -> ErrorCode:
    """What a producer of this version makes the right thing of: older ones know few errors that they may retry."""
    if error is ErrorCode.TRANSACTION_ABORTABLE and api_version < ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    return ErrorCode.NOT_ENOUGH_REPLICAS if error in NOT_NOW else error


def _all_refused(request: ProduceRequest, error: ErrorCode) -> list[_Appended]:
    return [
        (topic, [(_refusal(part.index, error), None) for part in topic.partition_data]) for topic in request.topic_data
    ]


async def _append(
    ctx: RequestContext,
    asked: TopicProduceData,
    part: PartitionProduceData,
    acks: int,
    guards: _Guards,
    judged: _Judged,
) -> _Pending:
    topic = asked.name
    if not guards:  # what the coordinator said of a transaction is acted upon at once
        await ctx.take_turns()
    if acks not in VALID_ACKS:
        return _refusal(part.index, ErrorCode.INVALID_REQUIRED_ACKS), None
    if topic in INTERNAL_TOPICS:  # what stands there is the coordinators' state
        return _refusal(part.index, ErrorCode.INVALID_TOPIC_EXCEPTION), None
    replica = ctx.services.replicas.get(topic, part.index)
    if replica is None:
        return _refusal(part.index, _error_of_missing(topic, ctx.api_version)), None
    if ctx.api_version >= TOPIC_IDS_SINCE and asked.topic_id != replica.key.topic_id:  # created again meanwhile
        return _refusal(part.index, ErrorCode.UNKNOWN_TOPIC_ID), None
    guard = guards.get((topic, part.index))
    if isinstance(guard, ErrorCode):
        return _refusal(part.index, guard), None
    try:
        await replica.ensure_open()
        result, write = replica.append(
            part.records or memoryview(b""),
            AppendOrigin.CLIENT,
            api_version=ctx.api_version,
            guard=guard,
            judged=judged.get(id(part)),
        )
    except PartitionUnavailable as unavailable:
        if unavailable.is_offline:
            replica.note_refused(part.records or memoryview(b""))
        return _refusal(part.index, unavailable.error), None
    if isinstance(result, Rejected):
        return _rejection(part.index, result, replica.log.log_start_offset), None
    return _success(part.index, result, replica.log.log_start_offset), write


def _error_of_missing(topic: str, api_version: int) -> ErrorCode:
    by_unknown_id = not topic and api_version >= TOPIC_IDS_SINCE
    return ErrorCode.UNKNOWN_TOPIC_ID if by_unknown_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _success(index: int, result: Appended | Duplicate, log_start_offset: int) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        base_offset=result.base_offset,
        log_append_time_ms=result.log_append_time_ms,
        log_start_offset=log_start_offset,
    )


def _refusal(index: int, error: ErrorCode) -> PartitionProduceResponse:
    return PartitionProduceResponse(index=index, error_code=error, base_offset=-1)


def _rejection(index: int, rejected: Rejected, log_start_offset: int) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=rejected.error,
        base_offset=-1,
        log_start_offset=log_start_offset if rejected.error in OF_THE_PRODUCER else -1,
        record_errors=tuple(
            BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=message)
            for at, message in rejected.record_errors
        ),
        error_message=rejected.message,
    )


def _outcome(response: PartitionProduceResponse, write: Completion[None] | None) -> PartitionProduceResponse:
    if write is None or write.error is None:
        return response
    assert isinstance(write.error, StoreError)
    return _refusal(response.index, error_of_store(write.error))


def _close_on_error(responses: tuple[TopicProduceResponse, ...]) -> None:
    for topic in responses:
        for part in topic.partition_responses:
            if part.error_code:
                error = ErrorCode(part.error_code)
                raise RequestRefusedError(f"{error.name} for {topic.name!r}-{part.index} with acks=0")
