"""The load of transactions: each transactional id has one producer after the other. They commit, abort, pause for
longer than the transaction's time-out, end in the middle, or are fenced; another client reads committed records.

In half of the simulations the topic is compacted. Its keys are unique, so only aborted records may be removed.
"""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import trio

from odradek.gateway.testing.simulation import World
from odradek.gateway.testing.simulation.loads.client import Brokers, UnreachableError
from odradek.gateway.testing.simulation.loads.inspector import LATEST, READ_COMMITTED, Inspector
from odradek.gateway.testing.simulation.loads.oracle import Invariant, Violation, check
from odradek.gateway.testing.simulation.loads.records import Page, read_committed_page, values_of
from odradek.gateway.testing.simulation.loads.transaction_oracle import Outcome, Transaction, TransactionOracle
from odradek.gateway.testing.simulation.loads.transactional_producer import TransactionalProducer, TransactionOverError
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from odradek.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from odradek.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse

TOPIC, PARTITIONS = "ledger", 3
IDS = ("teller-1", "teller-2")
TIMEOUT_MS = 5000
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "1500",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "1000",
}
LATE_FOLLOWERS = {"delete.retention.ms": "86400000"}
"""A replica that is offline for longer may lack the marker of a transaction whose records it has, as in Kafka."""
CLOCK_STEPS_S = 1200
"""How much longer a transaction may seem to last, since each clock is at most ten minutes off, either way."""
SAFE_DOWNGRADE = 2


class TransactionLoad:
    """See `Load`."""

    wait_limit_s = 1500.0

    def __init__(self, world: World, broker: Brokers, oracle: TransactionOracle | None = None) -> None:
        self.tally: Counter[str] = Counter()
        self._world, self._broker = world, broker
        self._oracle = oracle or TransactionOracle()
        self._inspector = Inspector(broker)
        self._chance = world.chance("transactions")
        self._auditor = broker.client("auditor")
        self._positions = dict.fromkeys(range(PARTITIONS), 0)
        self.is_compacted = self._chance.random() < 0.5
        self._only_version_1 = self._chance.random() < 0.25
        self._number = itertools.count(1)
        self._pause_s = 0.2

    @property
    def hosts(self) -> Sequence[str]:
        """See `Load.hosts`."""
        return [*(f"{each}{side}" for each in IDS for side in "ab"), "auditor"]

    @property
    def topics(self) -> Sequence[str]:
        """See `Load.topics`."""
        return [TOPIC]

    async def set_up(self) -> None:
        """See `Load.set_up`."""
        compacted = COMPACTED if self._broker.is_one else {**COMPACTED, **LATE_FOLLOWERS}
        await self._inspector.create_topic(TOPIC, PARTITIONS, compacted if self.is_compacted else None)
        if self._only_version_1:
            update = FeatureUpdateKey(feature="transaction.version", max_version_level=1, upgrade_type=SAFE_DOWNGRADE)
            answer = await self._inspector.ask(UpdateFeaturesRequest(feature_updates=(update,)), UpdateFeaturesResponse)
            check(not answer.error_code, Invariant.ADMIN_ACCEPTED, f"UpdateFeatures: {answer.error_message}")

    async def run(self, calm: trio.Event) -> None:
        """See `Load.run`."""
        async with trio.open_nursery() as readers:
            readers.start_soon(self._audit)
            async with trio.open_nursery() as writers:
                for transactional_id in IDS:
                    writers.start_soon(self._own, transactional_id, calm, writers)
            self._pause_s = 10.0  # until the last transactions, only time-outs change anything
            await self._all_ended()
            for transactional_id in IDS:
                await self._last_transaction(transactional_id)
            await self._all_read()
            readers.cancel_scope.cancel()
        self._auditor.close()

    # Producers

    def _producer(self, transactional_id: str, host: str) -> TransactionalProducer:
        number = next(self._number)
        chance = self._world.chance(f"{transactional_id} {number}")
        version = 1 if self._only_version_1 else chance.choice((1, 2, 2))
        client = (self._broker, host)
        return TransactionalProducer(client, self._oracle, transactional_id, TOPIC, version=version, chance=chance)

    async def _own(self, transactional_id: str, calm: trio.Event, nursery: trio.Nursery) -> None:
        """Run one producer after the other, each with some transactions; then it ends or continues beside the next."""
        for side in itertools.cycle("ab"):
            producer = self._producer(transactional_id, f"{transactional_id}{side}")
            await producer.take_over(TIMEOUT_MS)
            if calm.is_set():
                await self._stop_while_writing(producer)
                return
            try:
                for _ in range(self._chance.randint(1, 6)):
                    await self._transaction(producer)
            except TransactionOverError as over:
                self.tally[f"transactions over by {over.error.name}"] += 1
                producer.close()
                continue
            if self._chance.random() < 0.6:
                nursery.start_soon(self._go_on_superseded, producer)
            else:
                producer.close()

    async def _stop_while_writing(self, producer: TransactionalProducer) -> None:
        """Leave the last producer's transaction open, so that only its time-out can end it."""
        transaction = self._oracle.begin(producer.transactional_id)
        with suppress(TransactionOverError):
            await self._write(producer, transaction)
        self._oracle.was_given_up(transaction)
        producer.close()

    async def _go_on_superseded(self, producer: TransactionalProducer) -> None:
        """Continue as a zombie: a producer that was replaced, and runs until it gets an error."""
        try:
            for _ in range(10):
                await self._transaction(producer)
        except TransactionOverError:
            self.tally["superseded producers fenced"] += 1
        producer.close()

    async def _transaction(self, producer: TransactionalProducer) -> None:
        """Run one transaction, with any outcome. Raises TransactionOverError if it, or its producer, has ended."""
        transaction = self._oracle.begin(producer.transactional_id)
        await trio.sleep(self._chance.uniform(0, 0.3))
        try:
            await self._write(producer, transaction)
            if self._chance.random() < 0.1:
                await trio.sleep(self._chance.uniform(0.8, 2) * TIMEOUT_MS / 1000)
            await self._end(producer, transaction)
        except TransactionOverError:
            self._oracle.was_given_up(transaction)
            raise
        if transaction.outcome is Outcome.COMMITTED:
            self.tally["transactions committed"] += 1

    async def _write(self, producer: TransactionalProducer, transaction: Transaction) -> None:
        for number in range(self._chance.randint(1, 4)):
            partition = self._chance.randrange(PARTITIONS)
            values = [self._oracle.new_value(transaction, partition) for _ in range(self._chance.randint(1, 3))]
            await producer.write(transaction, partition, values)
            if not number and self._chance.random() < 0.5:
                await producer.commit_offset(transaction, _group(producer.transactional_id))

    async def _end(self, producer: TransactionalProducer, transaction: Transaction) -> None:
        """Commit, abort, or simulate the end of the process."""
        [way] = self._chance.choices(("commit", "abort", "abort late", "die", "die ending"), (60, 15, 8, 8, 9))
        if way == "commit":
            await producer.end(transaction, committed=True)
            return
        if way == "die ending":
            await producer.end_without_response(transaction, committed=self._chance.random() < 0.8)
        if way == "abort late":
            partition = self._chance.randrange(PARTITIONS)
            await producer.write_without_response(partition, [self._oracle.new_value(transaction, partition)])
        if way.startswith("abort"):
            await producer.end(transaction, committed=False)
            self.tally["transactions aborted"] += 1
        if way != "abort":
            # The outcome of the last request is unknown, so the next producer takes over the transactional id.
            self._oracle.was_given_up(transaction)
            self.tally["producers died"] += 1
            raise TransactionOverError(ErrorCode.NONE)

    async def _last_transaction(self, transactional_id: str) -> None:
        """Check that a transaction commits without faults and other producers. Raises Violation."""
        producer = self._producer(transactional_id, f"{transactional_id}a")
        await producer.take_over(60_000)
        transaction = self._oracle.begin(transactional_id)
        try:
            for partition in range(PARTITIONS):
                await producer.write(transaction, partition, [self._oracle.new_value(transaction, partition)])
            await producer.commit_offset(transaction, _group(transactional_id))
            await producer.end(transaction, committed=True)
        except TransactionOverError as over:
            raise Violation(Invariant.SERVES, f"the last transaction of {transactional_id}: {over}") from over
        producer.close()

    # Readers

    async def _audit(self) -> None:
        """Read committed records, and the offsets of all groups."""
        while True:
            try:
                await self._read_on()
                await self._look_at_offset(self._chance.choice(IDS))
            except UnreachableError:
                await trio.sleep(0.1)
            await trio.sleep(self._chance.uniform(0, self._pause_s))

    async def _read_on(self) -> None:
        max_bytes = self._chance.choice((200, 5000))
        wanted = [
            FetchPartition(partition=partition, fetch_offset=position, partition_max_bytes=max_bytes)
            for partition, position in self._positions.items()
        ]
        request = FetchRequest(
            max_wait_ms=300,
            min_bytes=1,
            max_bytes=100_000,
            isolation_level=READ_COMMITTED,
            topics=(FetchTopic(topic=TOPIC, partitions=tuple(wanted)),),
        )
        answer = await self._auditor.call(request)
        assert isinstance(answer, FetchResponse)
        for part in answer.responses[0].partitions:
            if part.error_code not in (ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR):
                raise Violation(Invariant.SERVES, f"Fetch under read_committed: {part.error_code}")
            if not part.error_code:
                self._take(
                    part.partition_index,
                    part.last_stable_offset,
                    read_committed_page(part, self._positions[part.partition_index]),
                )

    def _take(self, partition: int, stable_offset: int, page: Page) -> None:
        position = self._positions[partition]
        self._oracle.was_read("the auditor", partition, position, stable_offset, values_of(page.records))
        self._positions[partition] = page.position

    async def _look_at_offset(self, transactional_id: str) -> None:
        topic = OffsetFetchRequestTopics(name=TOPIC, partition_indexes=(0,))
        group = OffsetFetchRequestGroup(group_id=_group(transactional_id), topics=(topic,))
        floor = self._oracle.floor(transactional_id)
        answer = await self._auditor.call(OffsetFetchRequest(groups=(group,), require_stable=True))
        assert isinstance(answer, OffsetFetchResponse)
        if answer.groups[0].error_code:
            return
        [part] = answer.groups[0].topics[0].partitions
        if not part.error_code:
            self._oracle.offset_seen(transactional_id, floor, part.committed_offset)
            self.tally["stable offsets seen"] += 1

    # The end

    async def _all_ended(self) -> None:
        """Check that every transaction ends within its time-out, even without its producer. Raises Violation."""
        deadline_s = trio.current_time() + TIMEOUT_MS / 1000 + CLOCK_STEPS_S
        while True:
            ends = await self._inspector.offsets(TOPIC, PARTITIONS)
            stable = await self._inspector.offsets(TOPIC, PARTITIONS, timestamp=LATEST, isolation=READ_COMMITTED)
            if ends == stable:
                return
            check(
                trio.current_time() < deadline_s,
                Invariant.TRANSACTIONS_END,
                f"the last stable offsets are still {stable}, the logs end at {ends}",
            )
            await trio.sleep(10)

    async def _all_read(self) -> None:
        """Wait until the auditor is at the end; the last markers may still be written meanwhile."""
        while await self._inspector.offsets(TOPIC, PARTITIONS) != self._positions:  # noqa: ASYNC110 - as above
            await trio.sleep(1)

    async def state(self) -> Mapping[str, Any]:
        """See `Load.state`."""
        await self._inspector.offsets(TOPIC, PARTITIONS)  # new leaders have a current high watermark once they answer
        state: dict[str, Any] = {f"ledger {index}": await self._values(index) for index in range(PARTITIONS)}
        for transactional_id in IDS:
            [offset] = (await self._inspector.committed(_group(transactional_id), TOPIC, [0])).values()
            state[f"offset of {transactional_id}"] = offset
        return state

    async def _values(self, partition: int) -> dict[int, str]:
        """The committed records of a partition, by offset."""

        def seen(position: int, data: PartitionData, values: list[tuple[int, str]]) -> None:
            self._oracle.was_read("the last reader", partition, position, data.last_stable_offset, values)

        return await self._inspector.values(TOPIC, partition, seen, READ_COMMITTED)

    def judge(self, state: Mapping[str, Any]) -> None:
        """See `Load.judge`."""
        log = {index: state[f"ledger {index}"] for index in range(PARTITIONS)}
        self._oracle.judge(log, {each: state[f"offset of {each}"] for each in IDS})


def _group(transactional_id: str) -> str:
    return f"{transactional_id}-progress"
