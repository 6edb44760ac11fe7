"""The load of a compacted topic: few keys, many records, tombstones; and a reader that repeatedly reads the whole log
while the cleaner runs.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import trio

from odradek.gateway.testing.simulation import World
from odradek.gateway.testing.simulation.loads.client import Brokers, UnreachableError
from odradek.gateway.testing.simulation.loads.inspector import Inspector
from odradek.gateway.testing.simulation.loads.oracle import Invariant, Oracle, check
from odradek.gateway.testing.simulation.loads.producer import Batch, SimProducer
from odradek.gateway.testing.simulation.loads.records import Page, read_page
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from odradek.wire.records.builder import SimpleRecord
from odradek.wire.records.reader import Record

TOPIC, PARTITIONS, KEYS = "accounts", 2, 6
ROUNDS = 25
DELETE_RETENTION_MS = 4000
CONFIGS = {
    "cleanup.policy": "compact",
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": str(DELETE_RETENTION_MS),
}
VALUE, TOMBSTONE = "=", "!"
Found = Mapping[int, str]
"""The entries in a partition, by offset. An entry is the key, one of the two signs, and a unique name."""


def _key(entry: str) -> str:
    return entry.partition(TOMBSTONE if TOMBSTONE in entry else VALUE)[0]


def _entry(record: Record) -> str:
    return dict(record.headers).get("entry", b"").decode()


class KeyedProducer(SimProducer):
    """Writes values and tombstones of few keys; each record has its entry in a header."""

    def __init__(self, world: World, broker: Brokers, oracle: "CompactionOracle", name: str) -> None:
        super().__init__(world, broker, oracle, name, (TOPIC, PARTITIONS), idempotent=True)
        self._book = oracle

    def value(self, unique: str) -> str:
        """See `SimProducer.value`."""
        sign = TOMBSTONE if self.chance.random() < 0.25 else VALUE
        return f"key-{self.chance.randrange(KEYS)}{sign}{unique}"

    def record(self, value: str, now_ms: int) -> SimpleRecord:
        """See `SimProducer.record`."""
        content = None if TOMBSTONE in value else value.encode()
        return SimpleRecord(_key(value).encode(), content, now_ms, (("entry", value.encode()),))

    def acknowledged(self, batch: Batch, base_offset: int) -> None:
        """See `SimProducer.acknowledged`."""
        super().acknowledged(batch, base_offset)
        self._book.written(batch.partition, base_offset, batch.values)


class CompactionOracle(Oracle):
    """Checks that a compacted log still has all records that compaction must keep."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self._newest: dict[tuple[int, str], tuple[int, str, float]] = {}

    def written(self, partition: int, base_offset: int, entries: Sequence[str]) -> None:
        """Record entries that are acknowledged now."""
        for offset, entry in enumerate(entries, base_offset):
            place = (partition, _key(entry))
            if self._newest.get(place, (-1, "", 0.0))[0] < offset:
                self._newest[place] = (offset, entry, trio.current_time())

    def newest(self, partition: int) -> Mapping[str, tuple[int, str, float]]:
        """The offset, entry and time of acknowledgement of each key's newest acknowledged record."""
        return {key: newest for (index, key), newest in self._newest.items() if index == partition}

    def scanned(
        self, partition: int, newest: Mapping[str, tuple[int, str, float]], found: Found, began_s: float
    ) -> None:
        """Check a read of the whole partition; `newest` is as of its beginning. Raises Violation."""
        last = {_key(entry): (offset, entry) for offset, entry in found.items()}
        for key, (offset, entry, since_s) in newest.items():
            there = last.get(key)
            if there is not None and there[0] >= offset:
                continue
            check(
                TOMBSTONE in entry and there is None,
                Invariant.NEWEST_KEPT,
                f"{entry} was acknowledged at {partition}@{offset}, a reader of all finds {there}",
            )
            # If a clock was ever ahead, delete.retention.ms may have passed on it.
            early = self._world.largest_skew_ms == 0 and began_s < since_s + DELETE_RETENTION_MS / 1000
            check(not early, Invariant.TOMBSTONES_KEPT, f"{entry} at {partition}@{offset} is gone at {began_s}")


class CompactionLoad:
    """See `Load`."""

    wait_limit_s = 600.0

    def __init__(self, world: World, broker: Brokers) -> None:
        self.tally: Counter[str] = Counter()
        self._chance = world.chance("compaction")
        self._oracle = CompactionOracle(world)
        self._inspector = Inspector(broker)
        self._scanner = broker.client("scanner")
        self._producers = [KeyedProducer(world, broker, self._oracle, f"clerk-{number}") for number in (1, 2)]

    @property
    def hosts(self) -> Sequence[str]:
        """See `Load.hosts`."""
        return ["scanner", *(producer.name for producer in self._producers)]

    @property
    def topics(self) -> Sequence[str]:
        """See `Load.topics`."""
        return [TOPIC]

    async def set_up(self) -> None:
        """See `Load.set_up`."""
        await self._inspector.create_topic(TOPIC, PARTITIONS, CONFIGS)

    async def run(self, calm: trio.Event) -> None:
        """See `Load.run`."""
        async with trio.open_nursery() as readers:
            readers.start_soon(self._scan_always)
            async with trio.open_nursery() as writers:
                for producer in self._producers:
                    writers.start_soon(producer.run, ROUNDS)
                await calm.wait()
            readers.cancel_scope.cancel()
        self._scanner.close()
        await self._at_rest()

    async def _at_rest(self) -> None:
        """Wait until the cleaner removes nothing more."""
        before: object = None
        while (now := [await self._values(index) for index in range(PARTITIONS)]) != before:
            before = now
            await trio.sleep(20)

    async def _scan_always(self) -> None:
        while True:
            await trio.sleep(self._chance.uniform(0, 1))
            try:
                await self._scan(self._chance.randrange(PARTITIONS))
                self.tally["scans of a compacted log"] += 1
            except UnreachableError:
                await trio.sleep(0.1)

    async def _scan(self, partition: int) -> None:
        newest = self._oracle.newest(partition)
        began_s, position, found = trio.current_time(), 0, dict[int, str]()
        while True:
            part = FetchPartition(
                partition=partition,
                fetch_offset=position,
                partition_max_bytes=self._chance.choice((300, 2000, 100_000)),
            )
            topic = FetchTopic(topic=TOPIC, partitions=(part,))
            answer = await self._scanner.call(FetchRequest(max_wait_ms=0, max_bytes=100_000, topics=(topic,)))
            assert isinstance(answer, FetchResponse)
            data = answer.responses[0].partitions[0]
            if data.error_code:
                raise UnreachableError(str(data.error_code))
            page = self._take("the scanner", data, position, found)
            if page.position == position:
                break
            position = page.position
        self._oracle.scanned(partition, newest, found, began_s)

    def _take(self, reader: str, data: PartitionData, position: int, found: dict[int, str]) -> Page:
        page = read_page(data, position)
        entries = [(record.offset, _entry(record)) for record in page.records]
        self._oracle.was_read(reader, data.partition_index, position, data.high_watermark, entries, gaps=True)
        found.update(entries)
        return page

    async def state(self) -> Mapping[str, Any]:
        """See `Load.state`."""
        return {f"accounts {index}": await self._values(index) for index in range(PARTITIONS)}

    async def _values(self, partition: int) -> dict[int, str]:
        found: dict[int, str] = {}
        position = 0
        while True:
            data, _ = await self._inspector.fetch(TOPIC, partition, position)
            page = self._take("the last reader", data, position, found)
            if page.position == position:
                return found
            position = page.position

    def judge(self, state: Mapping[str, Any]) -> None:
        """See `Load.judge`."""
        for partition in range(PARTITIONS):
            found = state[f"accounts {partition}"]
            self._oracle.scanned(partition, self._oracle.newest(partition), found, trio.current_time())
            written = sum(1 for index, _ in self._oracle.acknowledged if index == partition)
            self.tally["records compacted away"] += written - len(found)
