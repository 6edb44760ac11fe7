"""Produce (API 0), versions 3 to 11; 0 to 2 are advertised for old librdkafka's sake and refused (KAFKA-18659).

The handler is pipelined: when it returns, every batch has its offsets or its refusal, and what it returns is ready once
all of it is on disk. With acks=0 there is no response; on an error the connection is closed, as Kafka does.

Gaps: transactions come with the transaction coordinator.
"""

from collections.abc import Callable
from typing import Final

from coordinator.metadata.names import INTERNAL_TOPICS
from gateway.context import RequestContext
from gateway.errors import RequestRefusedError, error_of_store
from gateway.runtime.commit import Ticket
from gateway.runtime.replica import ReplicaGoneError, ReplicaOfflineError
from partitions.results import Appended, AppendOrigin, Duplicate, Rejected
from storage_backends.interface import StoreError
from wire.errors import ErrorCode
from wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from wire.records.batch import MAGIC_V2, TRANSACTIONAL_FLAG

REQUEST: Final = ProduceRequest
VALID_ACKS: Final = frozenset({-1, 0, 1})
# Where a batch says that it is transactional, read without parsing the rest of its header.
_MAGIC_AT: Final = 16
_ATTRIBUTES_LOW_AT: Final = 22

_Pending = tuple[PartitionProduceResponse, Ticket | None]


class PendingProduce:
    """The response of a Produce on its way to the disk: ready when the commits of all its batches are settled."""

    __slots__ = ("_acks", "_appended", "_callback", "_unsettled")

    def __init__(self, acks: int, appended: list[tuple[str, list[_Pending]]]) -> None:
        self._acks = acks
        self._appended = appended
        self._callback: Callable[[], None] | None = None
        self._unsettled = 0
        for _, results in appended:
            for _, ticket in results:
                if ticket is not None and not ticket.settled:
                    self._unsettled += 1
                    ticket.on_settled(self._settled)

    @property
    def is_ready(self) -> bool:
        """Whether every commit is settled."""
        return not self._unsettled

    def on_ready(self, callback: Callable[[], None]) -> None:
        """See `PendingResponse.on_ready`."""
        self._callback = callback

    def _settled(self, _: StoreError | None) -> None:
        self._unsettled -= 1
        if not self._unsettled and self._callback is not None:
            self._callback()

    def response(self) -> ProduceResponse | None:
        """None with acks=0. Raises RequestRefusedError for an error then."""
        responses = tuple(
            [
                TopicProduceResponse(name=name, partition_responses=tuple([_outcome(*one) for one in results]))
                for name, results in self._appended
            ]
        )
        if self._acks == 0:
            _close_on_error(responses)
            return None
        return ProduceResponse(responses=responses)


async def handle(ctx: RequestContext, request: ProduceRequest) -> PendingProduce:
    """Append every partition's batch; return what becomes the response. Order: that of the calls."""
    await ctx.services.replicas.backlog.room()
    if _has_transactional(request):
        return PendingProduce(request.acks, _refused_transaction(request))
    appended: list[tuple[str, list[_Pending]]] = []
    for topic in request.topic_data:
        results = [await _append(ctx, topic.name, part, request.acks) for part in topic.partition_data]
        appended.append((topic.name, results))
    return PendingProduce(request.acks, appended)


def _has_transactional(request: ProduceRequest) -> bool:
    return any(
        part.records is not None
        and len(part.records) > _ATTRIBUTES_LOW_AT
        and part.records[_ATTRIBUTES_LOW_AT] & TRANSACTIONAL_FLAG
        and part.records[_MAGIC_AT] == MAGIC_V2
        for topic in request.topic_data
        for part in topic.partition_data
    )


def _refused_transaction(request: ProduceRequest) -> list[tuple[str, list[_Pending]]]:
    """As Kafka: without a transactional id nobody may write one; with one, this partition is in none that is open."""
    named = request.transactional_id is not None
    error = ErrorCode.INVALID_TXN_STATE if named else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return [
        (topic.name, [(_refusal(part.index, error), None) for part in topic.partition_data])
        for topic in request.topic_data
    ]


async def _append(ctx: RequestContext, topic: str, part: PartitionProduceData, acks: int) -> _Pending:
    if acks not in VALID_ACKS:
        return _refusal(part.index, ErrorCode.INVALID_REQUIRED_ACKS), None
    if topic in INTERNAL_TOPICS:  # what stands there is the coordinators' state
        return _refusal(part.index, ErrorCode.INVALID_TOPIC_EXCEPTION), None
    replica = ctx.services.replicas.get(topic, part.index)
    if replica is None:
        return _refusal(part.index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), None
    try:
        await replica.ensure_open()
        result, ticket = replica.append(
            part.records or memoryview(b""), AppendOrigin.CLIENT, api_version=ctx.api_version
        )
    except ReplicaOfflineError:
        replica.note_refused(part.records or memoryview(b""))
        return _refusal(part.index, ErrorCode.KAFKA_STORAGE_ERROR), None
    except ReplicaGoneError:
        return _refusal(part.index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), None
    if isinstance(result, Rejected):
        return _rejection(part.index, result), None
    return _success(part.index, result, replica.log.log_start_offset), ticket


def _success(index: int, result: Appended | Duplicate, log_start_offset: int) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        base_offset=result.base_offset,
        log_append_time_ms=result.log_append_time_ms,
        log_start_offset=log_start_offset,
    )


def _refusal(index: int, error: ErrorCode) -> PartitionProduceResponse:
    return PartitionProduceResponse(index=index, error_code=error, base_offset=-1)


def _rejection(index: int, rejected: Rejected) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=rejected.error,
        base_offset=-1,
        record_errors=tuple(
            BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=message)
            for at, message in rejected.record_errors
        ),
        error_message=rejected.message,
    )


def _outcome(response: PartitionProduceResponse, ticket: Ticket | None) -> PartitionProduceResponse:
    if ticket is None or ticket.error is None:
        return response
    return _refusal(response.index, error_of_store(ticket.error))


def _close_on_error(responses: tuple[TopicProduceResponse, ...]) -> None:
    for topic in responses:
        for part in topic.partition_responses:
            if part.error_code:
                error = ErrorCode(part.error_code)
                raise RequestRefusedError(f"{error.name} for {topic.name!r}-{part.index} with acks=0")
