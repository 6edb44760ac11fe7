"""A process with a transactional producer of either transaction version, which behaves like Kafka's producer.

With `transaction.version` 1 it adds partitions and groups before it writes, and keeps its epoch; from 2 on the requests
that write add them, and the answer to each EndTxn contains the next epoch (KIP-890).
"""

import random
from collections.abc import Mapping
from typing import TypeVar

import trio

from odradek.gateway.testing.simulation.loads.client import Brokers, Client, UnreachableError
from odradek.gateway.testing.simulation.loads.oracle import Invariant, Violation
from odradek.gateway.testing.simulation.loads.transaction_oracle import Transaction, TransactionOracle
from odradek.wire.api_keys import ApiKey
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from odradek.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from odradek.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from odradek.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from odradek.wire.records.builder import SimpleRecord, build_batch
from odradek.wire.schema.schema import Message

M = TypeVar("M", bound=Message)

VERSIONS: Mapping[int, Mapping[ApiKey, int]] = {
    1: {ApiKey.PRODUCE: 11, ApiKey.END_TXN: 4, ApiKey.TXN_OFFSET_COMMIT: 4},
    2: {ApiKey.PRODUCE: 12, ApiKey.END_TXN: 5, ApiKey.TXN_OFFSET_COMMIT: 5},
}
"""The API versions that a producer uses for each `transaction.version`."""

AGAIN = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
OVER = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
"""Errors after which the transaction cannot continue: it timed out, or another producer has its transactional id."""
GROUP, TRANSACTION = 0, 1
"""The key types of FindCoordinator."""
RETRY_S = 0.1


class TransactionOverError(Exception):
    """The transaction has ended with an error; maybe the producer is fenced, too."""

    def __init__(self, error: ErrorCode) -> None:
        self.error = error
        super().__init__(error.name)


class TransactionalProducer:
    """Has `take_over` for the transactional id, and one method for each step of a transaction.

    Methods wait for the answer unless noted, and raise TransactionOverError and Violation.
    """

    def __init__(
        self,
        client: tuple[Brokers, str],
        oracle: TransactionOracle,
        transactional_id: str,
        topic: str,
        *,
        version: int,
        chance: random.Random,
    ) -> None:
        broker, host = client
        self.host = host
        self.transactional_id = transactional_id
        self.version = version
        self._oracle = oracle
        self._topic = topic
        self._chance = chance
        self._writer = broker.client(host, VERSIONS[version])
        self._coordinator = broker.client(host, VERSIONS[version])
        self._producer_id, self._epoch = -1, -1
        self._sequences: dict[int, int] = {}

    def close(self) -> None:
        """Close its connections, as when its process ends."""
        self._writer.close()
        self._coordinator.close()

    @property
    def _superseded(self) -> bool:
        return self._oracle.is_superseded(self.transactional_id, self)

    def _judge(self, what: str, code: int) -> bool:
        """True if a request succeeded, False if it must be sent again. Raises for other errors."""
        error = ErrorCode(code)
        if error in OVER:
            raise TransactionOverError(error)
        if error is not ErrorCode.NONE and error not in AGAIN:
            raise Violation(Invariant.PRODUCE_ACCEPTED, f"{what} of {self.transactional_id}: {error.name}")
        return error is ErrorCode.NONE

    async def _ask(self, client: Client, request: Message, kind: type[M]) -> M | None:
        try:
            answer = await client.call(request, self._chance.uniform(1, 6))
        except UnreachableError:
            answer = None
        if answer is None:
            await trio.sleep(self._chance.uniform(0, 2 * RETRY_S))
            return None
        assert isinstance(answer, kind)
        return answer

    # The transactional id

    async def take_over(self, timeout_ms: int) -> None:
        """Take over the transactional id from its present producer by InitProducerId."""
        await self._find_coordinator(TRANSACTION, self.transactional_id)
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms)
        while True:
            answer = await self._ask(self._coordinator, request, InitProducerIdResponse)
            if answer is not None and self._judge("InitProducerId", answer.error_code):
                self._continue_as(answer.producer_id, answer.producer_epoch)
                self._oracle.took_over(self.transactional_id, self)
                return
            await trio.sleep(RETRY_S)

    def _continue_as(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self._producer_id, self._epoch):
            self._producer_id, self._epoch, self._sequences = producer_id, epoch, {}

    async def _find_coordinator(self, key_type: int, key: str) -> None:
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=(key,))
        while True:
            answer = await self._ask(self._coordinator, request, FindCoordinatorResponse)
            if answer is not None and not answer.coordinators[0].error_code:
                return
            await trio.sleep(RETRY_S)

    # Writing

    async def write(self, transaction: Transaction, partition: int, values: list[str]) -> None:
        """Write one batch."""
        if self.version == 1:
            await self._add_partition(partition)
        request = self._produce(partition, values)
        while True:
            superseded = self._superseded
            answer = await self._ask(self._writer, request, ProduceResponse)
            if answer is not None:
                part = answer.responses[0].partition_responses[0]
                if self._judge("Produce", part.error_code):
                    self._oracle.accepted("Produce", self.transactional_id, superseded=superseded)
                    self._oracle.was_acknowledged(transaction, partition, part.base_offset, values)
                    return
            await trio.sleep(RETRY_S)

    async def write_without_response(self, partition: int, values: list[str]) -> None:
        """Send a batch without waiting for the answer; it may arrive after the end of its transaction."""
        if self.version == 1:
            await self._add_partition(partition)
        await self._writer.call_all([self._produce(partition, values)], self._chance.choice((0.0001, 0.01, 0.1)))

    def _produce(self, partition: int, values: list[str]) -> ProduceRequest:
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = sequence + len(values)
        now_ms = self._writer.env.wall_ms()
        data = build_batch(
            [SimpleRecord(value.encode(), value.encode(), now_ms) for value in values],
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
            transactional=True,
        )
        part = PartitionProduceData(index=partition, records=memoryview(data))
        return ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=30000,
            topic_data=(TopicProduceData(name=self._topic, partition_data=(part,)),),
        )

    async def _add_partition(self, partition: int) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=(AddPartitionsToTxnTopic(name=self._topic, partitions=(partition,)),),
        )
        while True:
            superseded = self._superseded
            answer = await self._ask(self._coordinator, request, AddPartitionsToTxnResponse)
            if answer is not None:
                [result] = answer.results_by_topic_v3_and_below[0].results_by_partition
                if self._judge("AddPartitionsToTxn", result.partition_error_code):
                    self._oracle.accepted("AddPartitionsToTxn", self.transactional_id, superseded=superseded)
                    return
            await trio.sleep(RETRY_S)

    # Offsets

    async def commit_offset(self, transaction: Transaction, group: str) -> None:
        """Commit, in the transaction, the transaction's number as the group's offset in partition 0."""
        await self._find_coordinator(GROUP, group)
        transaction.has_offsets = True
        if self.version == 1:
            await self._add_offsets(group)
        part = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=transaction.number)
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            topics=(TxnOffsetCommitRequestTopic(name=self._topic, partitions=(part,)),),
        )
        while True:
            superseded = self._superseded
            answer = await self._ask(self._coordinator, request, TxnOffsetCommitResponse)
            if answer is not None and self._judge("TxnOffsetCommit", answer.topics[0].partitions[0].error_code):
                self._oracle.accepted("TxnOffsetCommit", self.transactional_id, superseded=superseded)
                return
            await trio.sleep(RETRY_S)

    async def _add_offsets(self, group: str) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            group_id=group,
        )
        while True:
            superseded = self._superseded
            answer = await self._ask(self._coordinator, request, AddOffsetsToTxnResponse)
            if answer is not None and self._judge("AddOffsetsToTxn", answer.error_code):
                self._oracle.accepted("AddOffsetsToTxn", self.transactional_id, superseded=superseded)
                return
            await trio.sleep(RETRY_S)

    # The end

    async def end(self, transaction: Transaction, *, committed: bool) -> None:
        """Commit or abort; from version 2 on, continue in the epoch of the answer."""
        request = self._end_request(transaction, committed=committed)
        while True:
            superseded = self._superseded
            answer = await self._ask(self._coordinator, request, EndTxnResponse)
            if answer is not None and self._judge("EndTxn", answer.error_code):
                self._oracle.accepted("EndTxn", self.transactional_id, superseded=superseded)
                break
            await trio.sleep(RETRY_S)
        if committed:
            self._oracle.was_committed(transaction)
        if self.version > 1:
            self._continue_as(answer.producer_id, answer.producer_epoch)

    async def end_without_response(self, transaction: Transaction, *, committed: bool) -> None:
        """Send the EndTxn without waiting for the answer, as a process that ends right after."""
        request = self._end_request(transaction, committed=committed)
        await self._coordinator.call_all([request], self._chance.choice((0.0001, 0.01, 0.1)))

    def _end_request(self, transaction: Transaction, *, committed: bool) -> EndTxnRequest:
        if committed:
            self._oracle.will_commit(transaction)
        else:
            self._oracle.was_given_up(transaction)
        return EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=committed,
        )
