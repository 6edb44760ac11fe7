"""An idempotent producer of one partition over wire messages, with transactions where it has a transactional id.

It writes batches as they are given, so that any timestamp goes through; client libraries take 0 for "now". One request
is under way at a time, which keeps the order; what is repeated has its sequence, and is not stored twice.
"""

import time
from collections.abc import Sequence
from typing import Final, TypeVar

from odradek.pipeline.cluster import LATEST, TopicPartition
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.restoring.encoding import Producer, Row, encode
from odradek.pipeline.wire_client import BrokerError, WireClient
from odradek.pipeline.wire_socket import ConnectionLostError, error_name
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from odradek.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.wire.records.batch import increment_sequence
from odradek.wire.schema.schema import Message

M = TypeVar("M", bound=Message)

TRANSACTION_TIMEOUT_MS: Final = 60_000
PRODUCE_TIMEOUT_MS: Final = 30_000
TRANSACTION_KEY: Final = 1
_SHORT_PAUSES, _SHORT_PAUSE_S = 50, 0.002
"""The transaction before is over within milliseconds as a rule."""
_NEWEST: Final = {"find": 3, "init": 4, "add": 3, "end": 4}
"""The newest versions in which a client adds partitions to transactions by itself; later ones need transaction.version
2 of the cluster."""
_PASSING: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)
"""What is over soon, beside what the client itself repeats."""


class TooLargeError(PipelineError):
    """The broker takes no batch of this size."""


class PartitionProducer:
    """Writes to one partition. Raises PipelineError: what the broker refused, or what lasted longer than the time-out.

    With a `transactional_id` every earlier producer of that id is fenced when this one is made, and what it left open
    is aborted; `begin` and `commit` enclose what is written.
    """

    def __init__(
        self, client: WireClient, place: TopicPartition, codec: int = 0, transactional_id: str | None = None
    ) -> None:
        self._client, self._place, self._codec = client, place, codec
        self._transactional_id = transactional_id
        self._node: int | None = None
        self._producer = client.repeated(self._init)

    # Records

    def append(self, rows: Sequence[Row]) -> int:
        """Write the rows as one batch, and return its first offset. Raises TooLargeError where it is too large."""
        batch = encode(rows, self._codec, self._producer, dense=True)
        base_offset = self._client.repeated(lambda: self._produce(batch))
        sequence = increment_sequence(self._producer.sequence, len(rows))
        self._producer = self._producer._replace(sequence=sequence)
        return base_offset

    def _produce(self, batch: bytes) -> int:
        topic, index = self._place
        (leader,) = self._client.by_leader([self._place])
        data = TopicProduceData(
            name=topic,
            topic_id=self._client.topic(topic).topic_id,
            partition_data=(PartitionProduceData(index=index, records=memoryview(batch)),),
        )
        request = ProduceRequest(
            transactional_id=self._transactional_id, acks=-1, timeout_ms=PRODUCE_TIMEOUT_MS, topic_data=(data,)
        )
        newest = 11  # later versions add the partition to the transaction by themselves
        answer = self._client.request(request, ProduceResponse, leader, newest=newest)
        part = answer.responses[0].partition_responses[0]
        if part.error_code in {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE}:
            raise TooLargeError(f"{topic}-{index} takes no batch of {len(batch):,} bytes: raise its max.message.bytes")
        self._check(part.error_code, part.error_message)
        return part.base_offset

    # Transactions

    def begin(self) -> None:
        """Begin a transaction with the partition in it: its end writes a marker, whether there are records or not."""
        self._client.repeated(self._add_partition)

    def commit(self) -> None:
        """Commit it. The marker may be written a moment later."""
        self._client.repeated(self._end)

    def _init(self) -> Producer:
        request = InitProducerIdRequest(
            transactional_id=self._transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS if self._transactional_id else -1,
        )
        answer = self._ask(request, InitProducerIdResponse, _NEWEST["init"])
        self._check(answer.error_code)
        return Producer(answer.producer_id, answer.producer_epoch, 0, self._transactional_id is not None)

    def _ask(self, request: Message, response: type[M], newest: int) -> M:
        """Ask the transaction coordinator, or without a transactional id any broker."""
        if self._transactional_id is not None and self._node is None:
            self._node = self._find_coordinator(self._transactional_id)
        try:
            return self._client.request(request, response, self._node, newest=newest)
        except ConnectionLostError:
            self._node = None
            raise

    def _find_coordinator(self, transactional_id: str) -> int:
        request = FindCoordinatorRequest(key=transactional_id, key_type=TRANSACTION_KEY)
        answer = self._client.request(request, FindCoordinatorResponse, newest=_NEWEST["find"])
        self._check(answer.error_code, answer.error_message)
        self._client.by_leader([self._place])  # learns where the brokers are
        return answer.node_id

    def _add_partition(self) -> None:
        assert self._transactional_id is not None
        topic, index = self._place
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._transactional_id,
            v3_and_below_producer_id=self._producer.producer_id,
            v3_and_below_producer_epoch=self._producer.epoch,
            v3_and_below_topics=(AddPartitionsToTxnTopic(name=topic, partitions=(index,)),),
        )
        code = self._added(request)
        for _ in range(_SHORT_PAUSES):
            if code != ErrorCode.CONCURRENT_TRANSACTIONS:
                break
            time.sleep(_SHORT_PAUSE_S)
            code = self._added(request)
        self._check(code)

    def _added(self, request: AddPartitionsToTxnRequest) -> int:
        answer = self._ask(request, AddPartitionsToTxnResponse, _NEWEST["add"])
        return answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code

    def _end(self) -> None:
        assert self._transactional_id is not None
        request = EndTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=self._producer.producer_id,
            producer_epoch=self._producer.epoch,
            committed=True,
        )
        self._check(self._ask(request, EndTxnResponse, _NEWEST["end"]).error_code)

    def _check(self, code: int, message: str | None = None) -> None:
        if code in _PASSING:
            self._node = None
            # as a code that the client repeats
            raise BrokerError(ErrorCode.REQUEST_TIMED_OUT, self._words(code, message))
        if code:
            raise BrokerError(code, self._words(code, message))

    def _words(self, code: int, message: str | None) -> str:
        topic, index = self._place
        return f"{topic}-{index}: {error_name(code)}{f' ({message})' if message else ''}"


def end_offset(client: WireClient, place: TopicPartition) -> int:
    """Where the partition ends."""
    return client.list_offsets([place], LATEST)[place]
