"""Reads a topic through Fetch: what is there now, and then what comes."""

from collections.abc import Mapping
from typing import Final

import trio

from odradek.gateway.testing.kit.access import Access
from odradek.gateway.testing.kit.decoding import page_of
from odradek.gateway.testing.kit.errors import TemporaryError, UnknownTopicError, check
from odradek.gateway.testing.kit.lookup import Topic, retried, topic_of
from odradek.gateway.testing.kit.values import Isolation, Record
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from odradek.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST: Final = -1
EARLIEST: Final = -2
FETCH_VERSION: Final = 12
LIST_OFFSETS_VERSION: Final = 7
PAGE_BYTES: Final = 1 << 20
WAIT_MS: Final = 1000
"""A waiting fetch ends after this time, and the metadata is read again: the topic may have more partitions by then."""
LEVELS: Final[Mapping[str, int]] = {"read_uncommitted": 0, "read_committed": 1}


class TopicReader:
    """The positions of one reader in a topic. `partition` and `from_offset` restrict what is read.

    Its methods are called one at a time.
    """

    def __init__(
        self, topic: str, isolation: Isolation, partition: int | None = None, from_offset: int | None = None
    ) -> None:
        if isolation not in LEVELS:
            raise ValueError(f"isolation is one of {', '.join(map(repr, LEVELS))}, and not {isolation!r}")
        self.topic = topic
        self._isolation: Isolation = isolation
        self._partition = partition
        self._from_offset = from_offset
        self._topic_id: object = None
        self._positions: dict[int, int] = {}
        self._found: list[Record] = []

    async def read(self, access: Access) -> list[Record]:
        """All records between the positions and the present ends, by partition and offset.

        Raises UnknownTopicError, and LookupError if there is no such partition.
        """
        await retried(access, lambda: self._read(access))
        return self._taken()

    async def read_more(self, access: Access) -> list[Record]:
        """Wait until there are more records, also until there is the topic; by partition and offset."""
        while not self._found:
            try:
                await retried(access, lambda: self._wait(access))
            except UnknownTopicError:
                await access.pause()
        return self._taken()

    def _taken(self) -> list[Record]:
        found, self._found = self._found, []
        return sorted(found, key=lambda each: (each.partition, each.offset))

    async def _read(self, access: Access) -> None:
        for leader, partitions in (await self._by_leader(access)).items():
            ends = await offsets(access, self.topic, partitions, leader, LATEST, self._isolation)
            while behind := [each for each in partitions if self._positions[each] < ends[each]]:
                await self._fetch(access, leader, behind, wait_ms=0)

    async def _wait(self, access: Access) -> None:
        """Wait for the first leader that has records, or for `WAIT_MS`."""
        by_leader = await self._by_leader(access)
        async with trio.open_nursery() as nursery:
            for leader, partitions in by_leader.items():
                nursery.start_soon(self._wait_at, access, leader, partitions, nursery.cancel_scope)

    async def _wait_at(self, access: Access, leader: int, partitions: list[int], waiting: trio.CancelScope) -> None:
        await self._fetch(access, leader, partitions, WAIT_MS)
        if self._found:
            waiting.cancel()

    async def _by_leader(self, access: Access) -> dict[int, list[int]]:
        """The partitions to read by leader; each has a position."""
        topic = await topic_of(access, self.topic)
        if topic.topic_id != self._topic_id:
            self._topic_id = topic.topic_id
            self._positions.clear()
        by_leader: dict[int, list[int]] = {}
        for index in self._wanted(topic):
            by_leader.setdefault(topic.leaders[index], []).append(index)
        for leader, partitions in by_leader.items():
            new = [each for each in partitions if each not in self._positions]
            if new:
                starts = await offsets(access, self.topic, new, leader, EARLIEST, self._isolation)
                self._positions |= {index: max(start, self._from_offset or 0) for index, start in starts.items()}
        return by_leader

    def _wanted(self, topic: Topic) -> list[int]:
        if self._partition is None:
            return sorted(topic.leaders)
        if self._partition not in topic.leaders:
            count = len(topic.leaders)
            raise LookupError(f"topic {topic.name!r} has no partition {self._partition}, only 0 to {count - 1}")
        return [self._partition]

    async def _fetch(self, access: Access, leader: int, partitions: list[int], wait_ms: int) -> None:
        """Fetch once from one leader, keep the records, and move the positions. Raises TemporaryError."""
        wanted = [
            FetchPartition(partition=each, fetch_offset=self._positions[each], partition_max_bytes=PAGE_BYTES)
            for each in partitions
        ]
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=4 * PAGE_BYTES,
            isolation_level=LEVELS[self._isolation],
            topics=(FetchTopic(topic=self.topic, partitions=tuple(wanted)),),
        )
        response = await access.ask(request, FetchResponse, FETCH_VERSION, leader)
        check(response.error_code, f"Fetch of {self.topic}")
        parts = [each for topic in response.responses for each in topic.partitions]
        for data in parts:
            self._take(data)
        for data in parts:
            check(data.error_code, f"Fetch of {self.topic}-{data.partition_index}")

    def _take(self, data: PartitionData) -> None:
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            del self._positions[data.partition_index]
            raise TemporaryError(f"records of {self.topic}-{data.partition_index} were deleted", "OFFSET_OUT_OF_RANGE")
        if not data.error_code:
            records, position = page_of(self.topic, data, self._positions[data.partition_index])
            self._found += records
            self._positions[data.partition_index] = position


async def open_offsets(access: Access, name: str) -> int:
    """The number of offsets that are stored and not committed, because a transaction is open; 0 without the topic."""
    try:
        topic = await retried(access, lambda: topic_of(access, name))
    except UnknownTopicError:
        return 0
    found = 0
    for index, leader in topic.leaders.items():
        stored = await offsets(access, name, [index], leader, LATEST, "read_uncommitted")
        stable = await offsets(access, name, [index], leader, LATEST, "read_committed")
        found += stored[index] - stable[index]
    return found


async def offsets(
    access: Access, topic: str, partitions: list[int], leader: int, timestamp: int, isolation: Isolation
) -> dict[int, int]:
    """The offset of each partition at `LATEST` or `EARLIEST`. Raises TemporaryError."""
    wanted = tuple([ListOffsetsPartition(partition_index=each, timestamp=timestamp) for each in partitions])
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=LEVELS[isolation],
        topics=(ListOffsetsTopic(name=topic, partitions=wanted),),
    )
    response = await access.ask(request, ListOffsetsResponse, LIST_OFFSETS_VERSION, leader)
    found: dict[int, int] = {}
    for part in [each for one in response.topics for each in one.partitions]:
        check(part.error_code, f"the offsets of {topic}-{part.partition_index}")
        found[part.partition_index] = part.offset
    return found
