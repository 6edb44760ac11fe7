"""Producers that retry like real ones: an idempotent one sends a batch again with the same sequence number."""

import itertools
from dataclasses import dataclass

import trio

from odradek.gateway.testing.simulation import World
from odradek.gateway.testing.simulation.loads.client import Brokers, UnreachableError
from odradek.gateway.testing.simulation.loads.oracle import Invariant, Oracle, Violation
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.wire.records.builder import SimpleRecord, build_batch

RETRIABLE = frozenset(
    {ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER}
)
MAX_IN_FLIGHT = 5
RETRY_S = 0.1


@dataclass(slots=True)
class Batch:
    """A batch that is not yet acknowledged."""

    partition: int
    values: list[str]
    data: bytes


class SimProducer:
    """Sends up to five batches at a time to random partitions, and waits until all are acknowledged."""

    def __init__(
        self,
        world: World,
        broker: Brokers,
        oracle: Oracle,
        name: str,
        topic: tuple[str, int],
        *,
        idempotent: bool,
    ) -> None:
        self.name = name
        self._oracle = oracle
        self._topic, self._partitions = topic
        self._idempotent = idempotent
        self._client = broker.client(name)
        self.chance = world.chance(f"producer {name}")
        self._producer_id, self._epoch = -1, -1
        self._sequences = [0] * self._partitions
        self._count = 0
        oracle.idempotent[name] = idempotent

    async def run(self, rounds: int | None, calm: trio.Event | None = None) -> None:
        """Produce `rounds` times, or, if None, until `calm`; return once all is acknowledged. Raises Violation."""
        for number in itertools.count() if rounds is None else range(rounds):
            if rounds is None and calm is not None and calm.is_set():
                break
            await trio.sleep(self.chance.uniform(0, 0.4))
            if self._idempotent and (number == 0 or self.chance.random() < 0.3):
                await self._init_producer_id()  # as a restarted process does
            window = self._new_window()
            while window:
                window = await self._send(window)
        self._client.close()

    async def _init_producer_id(self) -> None:
        while True:
            try:
                answer = await self._client.call(
                    InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60000)
                )
            except UnreachableError:
                await trio.sleep(RETRY_S)
                continue
            assert isinstance(answer, InitProducerIdResponse)
            if answer.error_code == ErrorCode.NONE:
                self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
                self._oracle.was_given(self._producer_id)
                self._sequences = [0] * self._partitions
                return
            await trio.sleep(RETRY_S)

    def _new_window(self) -> list[Batch]:
        """Batches for any partitions, or for one, as from a sticky partitioner."""
        sticky = self.chance.random() < 0.6
        partitions = range(self._partitions)
        chosen = [self.chance.choice(partitions)] if sticky else partitions
        return [self._new_batch(self.chance.choice(chosen)) for _ in range(self.chance.randint(1, MAX_IN_FLIGHT))]

    def _new_batch(self, partition: int) -> Batch:
        values = [self._next_value() for _ in range(self.chance.randint(1, 4))]
        self._oracle.produced(self.name, partition, values)
        records = [self.record(value, self._client.env.wall_ms()) for value in values]
        batch = Batch(partition, values, self._encode(partition, records))
        self.made(batch)
        return batch

    def _encode(self, partition: int, records: list[SimpleRecord]) -> bytes:
        if not self._idempotent:
            return build_batch(records)
        sequence = self._sequences[partition]
        self._sequences[partition] += len(records)
        return build_batch(records, producer_id=self._producer_id, producer_epoch=self._epoch, base_sequence=sequence)

    def _next_value(self) -> str:
        self._count += 1
        return self.value(f"{self.name}/{self._count}")

    def value(self, unique: str) -> str:
        """The text that identifies a new record; `unique` occurs in no other one."""
        return unique

    def record(self, value: str, now_ms: int) -> SimpleRecord:
        """The record that the text `value` identifies."""
        return SimpleRecord(None, value.encode(), now_ms)

    def made(self, batch: Batch) -> None:
        """A batch is about to be sent."""

    def acknowledged(self, batch: Batch, base_offset: int) -> None:
        """A batch was acknowledged."""
        self._oracle.was_acknowledged(batch.partition, base_offset, batch.values)

    async def _send(self, window: list[Batch]) -> list[Batch]:
        """Send all batches in order; return those that are not acknowledged."""
        answers = await self._client.call_all([self._request(batch) for batch in window], self.chance.uniform(1, 6))
        left: list[Batch] = []
        for batch, answer in zip(window, answers, strict=True):
            if answer is None or not self._settle(
                batch, answer, first=all(each.partition != batch.partition for each in left)
            ):
                left.append(batch)
        if left:
            await trio.sleep(self.chance.uniform(0, 2 * RETRY_S))
        return left

    def _request(self, batch: Batch) -> ProduceRequest:
        part = PartitionProduceData(index=batch.partition, records=memoryview(batch.data))
        acks = -1 if self._idempotent else self.chance.choice((-1, 1))
        topic = TopicProduceData(name=self._topic, partition_data=(part,))
        return ProduceRequest(acks=acks, timeout_ms=30000, topic_data=(topic,))

    def _settle(self, batch: Batch, answer: object, *, first: bool) -> bool:
        """True if the batch is acknowledged. `first`: no earlier batch of its partition failed in this window."""
        assert isinstance(answer, ProduceResponse)
        part: PartitionProduceResponse = answer.responses[0].partition_responses[0]
        if part.error_code == ErrorCode.NONE:
            self.acknowledged(batch, part.base_offset)
            return True
        error = ErrorCode(part.error_code)
        if error not in RETRIABLE and (first or error is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
            raise Violation(
                Invariant.PRODUCE_ACCEPTED,
                f"{self.name} was told {error.name} for {batch.values} in {batch.partition}: {part.error_message}",
            )
        return False
