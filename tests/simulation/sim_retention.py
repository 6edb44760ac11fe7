"""The load of logs whose start moves: one topic with retention by size, one by age, and DeleteRecords in both."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import trio

from odradek.gateway.testing.simulation import World
from odradek.gateway.testing.simulation.loads.client import Brokers, Client, UnreachableError
from odradek.gateway.testing.simulation.loads.inspector import EARLIEST, Inspector
from odradek.gateway.testing.simulation.loads.oracle import Invariant, Oracle, Violation, check
from odradek.gateway.testing.simulation.loads.producer import Batch, SimProducer
from odradek.gateway.testing.simulation.loads.records import read_page, values_of
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

PARTITIONS, ROUNDS = 2, 25
RETENTION_BYTES, RETENTION_MS = 2500, 6000
UNLIMITED = -1
CONFIGS = {
    "by-size": {"retention.bytes": str(RETENTION_BYTES), "retention.ms": str(UNLIMITED), "segment.ms": "1000"},
    "by-age": {"retention.ms": str(RETENTION_MS), "segment.ms": "1000"},
}


class RetentionOracle(Oracle):
    """Checks that one topic's logs still have all records that must be kept."""

    def __init__(self, world: World, topic: str) -> None:
        super().__init__()
        self.topic = topic
        self.starts: dict[int, int] = dict.fromkeys(range(PARTITIONS), 0)
        """The highest log start offset that was seen of each partition."""
        self._world = world
        self._batches: dict[int, dict[int, tuple[int, float]]] = {index: {} for index in range(PARTITIONS)}
        self._pending: Counter[int] = Counter()
        self._asked = dict.fromkeys(range(PARTITIONS), 0)
        self._deleted = dict.fromkeys(range(PARTITIONS), 0)

    def will_send(self, batch: Batch) -> None:
        """A batch is about to be sent; until it is acknowledged it may or may not be stored."""
        self._pending[batch.partition] += len(batch.data)

    def stored(self, batch: Batch, base_offset: int, sent_s: float) -> None:
        """A batch was acknowledged; its records were created at `sent_s`."""
        self._pending[batch.partition] -= len(batch.data)
        self._batches[batch.partition][base_offset] = (len(batch.data), sent_s)

    def known_end(self, partition: int) -> int:
        """The offset after the last acknowledged record."""
        return max((offset + 1 for index, offset in self.acknowledged if index == partition), default=0)

    def will_delete(self, partition: int, offset: int) -> None:
        """DeleteRecords is about to be sent."""
        self._asked[partition] = max(self._asked[partition], offset)

    def was_deleted(self, partition: int, start_offset: int) -> None:
        """DeleteRecords was answered with this log start offset."""
        self._deleted[partition] = max(self._deleted[partition], start_offset)
        self.start_seen(partition, start_offset, start_offset)

    def deleted(self, partition: int) -> int:
        """The offset below which the deletion of all records was acknowledged."""
        return self._deleted[partition]

    def start_seen(self, partition: int, start_offset: int, deleted: int) -> None:
        """A response had this log start offset; `deleted` is as of its request. Raises Violation."""
        where = f"{self.topic}-{partition} starts at {start_offset}"
        check(start_offset >= deleted, Invariant.DELETED_STAYS, f"{where}, all below {deleted} was deleted")
        self.starts[partition] = max(self.starts[partition], start_offset)
        self.may_start(partition, start_offset)

    def may_start(self, partition: int, start_offset: int) -> None:
        """Check that retention or DeleteRecords may have moved the log start here, or beyond. Raises Violation."""
        where = f"{self.topic}-{partition} starts at {start_offset}"
        if start_offset <= self._asked[partition]:
            return
        if self.topic == "by-size":
            left = sum(size for base, (size, _) in self._batches[partition].items() if base >= start_offset)
            left += self._pending[partition]
            check(left >= RETENTION_BYTES, Invariant.RETENTION_LIMITED, f"{where}, which leaves {left} bytes")
        else:
            newest_s = max((at for base, (_, at) in self._batches[partition].items() if base < start_offset), default=0)
            age_ms = (trio.current_time() - newest_s) * 1000 + self._world.largest_skew_ms
            check(age_ms >= RETENTION_MS, Invariant.RETENTION_LIMITED, f"{where}, where records are {age_ms} ms old")


class MeasuredProducer(SimProducer):
    """Passes the sizes of its batches, and their times of creation, to the oracle."""

    def __init__(self, world: World, broker: Brokers, oracle: RetentionOracle, name: str) -> None:
        super().__init__(world, broker, oracle, name, (oracle.topic, PARTITIONS), idempotent=True)
        self._book = oracle
        self._made_s: dict[str, float] = {}

    def made(self, batch: Batch) -> None:
        """See `SimProducer.made`."""
        self._made_s[batch.values[0]] = trio.current_time()
        self._book.will_send(batch)

    def acknowledged(self, batch: Batch, base_offset: int) -> None:
        """See `SimProducer.acknowledged`."""
        super().acknowledged(batch, base_offset)
        self._book.stored(batch, base_offset, self._made_s[batch.values[0]])


class RetentionLoad:
    """See `Load`."""

    wait_limit_s = 1500.0

    def __init__(self, world: World, broker: Brokers) -> None:
        self.tally: Counter[str] = Counter()
        self._chance = world.chance("retention")
        self._inspector = Inspector(broker)
        self._range_inspectors = {topic: Inspector(broker) for topic in CONFIGS}
        self._readers = [broker.client("reader") for _ in CONFIGS]
        self._remover = broker.client("remover")
        self._oracles = [RetentionOracle(world, topic) for topic in CONFIGS]
        self._producers = [
            MeasuredProducer(world, broker, oracle, f"sensor-{oracle.topic}") for oracle in self._oracles
        ]

    @property
    def hosts(self) -> Sequence[str]:
        """See `Load.hosts`."""
        return ["reader", "remover", *(producer.name for producer in self._producers)]

    @property
    def topics(self) -> Sequence[str]:
        """See `Load.topics`."""
        return list(CONFIGS)

    async def set_up(self) -> None:
        """See `Load.set_up`."""
        for topic, configs in CONFIGS.items():
            await self._inspector.create_topic(topic, PARTITIONS, configs)

    async def run(self, calm: trio.Event) -> None:
        """See `Load.run`; ends when retention by age has removed all records."""
        async with trio.open_nursery() as others:
            for oracle, reader in zip(self._oracles, self._readers, strict=True):
                others.start_soon(self._read, oracle, reader)
            others.start_soon(self._delete, calm)
            async with trio.open_nursery() as writers:
                for producer in self._producers:
                    writers.start_soon(producer.run, ROUNDS)
                await calm.wait()
            await trio.sleep(5)
            others.cancel_scope.cancel()
        for client in (*self._readers, self._remover):
            client.close()
        ends = await self._inspector.offsets("by-age", PARTITIONS)
        while await self._inspector.offsets("by-age", PARTITIONS, timestamp=EARLIEST) != ends:  # noqa: ASYNC110 - time
            await trio.sleep(5)

    # Readers

    async def _read(self, oracle: RetentionOracle, client: Client) -> None:
        """Repeatedly read some records, at the start or in the middle of a log."""
        while True:
            await trio.sleep(self._chance.uniform(0, 0.6))
            partition = self._chance.randrange(PARTITIONS)
            try:
                await self._read_some(client, oracle, partition, self._chance.randint(0, 40))
            except UnreachableError:
                await trio.sleep(0.1)

    async def _read_some(self, client: Client, oracle: RetentionOracle, partition: int, after: int) -> None:
        position = oracle.starts[partition] + after
        deleted, end_offset = oracle.deleted(partition), oracle.known_end(partition)
        part = FetchPartition(partition=partition, fetch_offset=position, partition_max_bytes=2000)
        topic = FetchTopic(topic=oracle.topic, partitions=(part,))
        answer = await client.call(FetchRequest(max_wait_ms=0, max_bytes=10_000, topics=(topic,)))
        assert isinstance(answer, FetchResponse)
        data = answer.responses[0].partitions[0]
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._look_at_range(oracle, partition, position, end_offset)
        elif not data.error_code:
            oracle.start_seen(partition, data.log_start_offset, deleted)
            self._take(oracle, partition, position, data)

    def _take(self, oracle: RetentionOracle, partition: int, position: int, data: Any) -> None:
        records = read_page(data, position).records
        first = records[0].offset if records else position
        check(
            (bool(records) or position >= data.high_watermark) and first == position,
            Invariant.KEPT_ABOVE_START,
            f"{oracle.topic}-{partition} starts at {data.log_start_offset}; from {position} on {first} came first, "
            f"the high watermark is {data.high_watermark}",
        )
        oracle.was_read("the reader", partition, position, data.high_watermark, values_of(records))
        self.tally["reads near the start of a log"] += 1

    async def _look_at_range(self, oracle: RetentionOracle, partition: int, position: int, end_offset: int) -> None:
        """Check that an offset that was out of range is below the start, or above the end known before.

        As in Kafka, a new log start offset applies before it is stored: a failing disk, or a crash, may revert it.
        """
        deleted, inspector = oracle.deleted(partition), self._range_inspectors[oracle.topic]
        bad_disk = {ErrorCode.KAFKA_STORAGE_ERROR}
        start = (await inspector.offsets(oracle.topic, PARTITIONS, timestamp=EARLIEST, again=bad_disk))[partition]
        oracle.start_seen(partition, start, deleted)
        if start <= position <= end_offset:
            oracle.may_start(partition, position + 1)

    # DeleteRecords

    async def _delete(self, calm: trio.Event) -> None:
        while not calm.is_set():
            await trio.sleep(self._chance.uniform(1, 6))
            oracle, partition = self._chance.choice(self._oracles), self._chance.randrange(PARTITIONS)
            start, end_offset = oracle.starts[partition], oracle.known_end(partition)
            if start < end_offset:
                await self._delete_below(oracle, partition, min(start + self._chance.randint(1, 15), end_offset))

    async def _delete_below(self, oracle: RetentionOracle, partition: int, offset: int) -> None:
        oracle.will_delete(partition, offset)
        topic = DeleteRecordsTopic(
            name=oracle.topic, partitions=(DeleteRecordsPartition(partition_index=partition, offset=offset),)
        )
        try:
            answer = await self._remover.call(DeleteRecordsRequest(topics=(topic,), timeout_ms=3000))
        except UnreachableError:
            return
        assert isinstance(answer, DeleteRecordsResponse)
        [part] = answer.topics[0].partitions
        error = ErrorCode(part.error_code)
        if error not in (ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.REQUEST_TIMED_OUT):
            raise Violation(Invariant.ADMIN_ACCEPTED, f"DeleteRecords below {offset}: {error.name}")
        if not error:
            oracle.was_deleted(partition, part.low_watermark)
            self.tally["deletions of records"] += 1

    # The end

    async def state(self) -> Mapping[str, Any]:
        """See `Load.state`."""
        state: dict[str, Any] = {}
        for oracle in self._oracles:
            starts = await self._inspector.offsets(oracle.topic, PARTITIONS, timestamp=EARLIEST)
            state[f"starts {oracle.topic}"] = starts
            for partition, start in starts.items():
                oracle.start_seen(partition, start, oracle.deleted(partition))
                state[f"{oracle.topic} {partition}"] = await self._values(oracle, partition, start)
        return state

    async def _values(self, oracle: RetentionOracle, partition: int, start: int) -> dict[int, str]:
        found: dict[int, str] = {}
        position = start
        while True:
            data, page = await self._inspector.fetch(oracle.topic, partition, position)
            if not page.records:
                return found
            self._take(oracle, partition, position, data)
            found.update(values_of(page.records))
            position = page.position

    def judge(self, state: Mapping[str, Any]) -> None:
        """See `Load.judge`."""
        for oracle in self._oracles:
            for (partition, offset), value in sorted(oracle.acknowledged.items()):
                start = state[f"starts {oracle.topic}"][partition]
                self.tally[f"records removed {oracle.topic}"] += offset < start
                found = state[f"{oracle.topic} {partition}"].get(offset)
                check(
                    offset < start or found == value,
                    Invariant.KEPT_ABOVE_START,
                    f"{oracle.topic}-{partition} starts at {start}, and at {offset} is {found}, not {value}",
                )
