"""A follower whose log begins inside a batch of its leader, after DeleteRecords, copies the partition all the same."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from role_fakes import NODE, OTHER, TOPIC_ID, Inline, publish, replicas_over, sent, with_partitions

from odradek.coordinator.metadata.image.image import PartitionImage
from odradek.gateway.env.repeats import Repeats
from odradek.gateway.replication.fetcher import FetcherSettings, ReplicaFetcher
from odradek.gateway.replication.replica import Replica
from odradek.gateway.replication.replicas import Replicas
from odradek.partitions.model import LogWrite, PartitionKey
from odradek.partitions.producers import UNKNOWN_OFFSET, ProducerEntry
from odradek.storage_backends.faulty import FaultPlan, FaultyStore
from odradek.storage_backends.interface import LogPolicy, Store, StoreError
from odradek.storage_backends.opener import open_store
from odradek.storage_backends.testing.access import base_offsets
from odradek.storage_backends.testing.batches import make_batch
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from odradek.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

BATCHES = [make_batch(0, 100), make_batch(100, 10)]
START, END = 50, 110
BACKOFF_MS = 1


class FailsOnce(FaultPlan):
    """Lets one write to a log fail: the one with this number, from 1."""

    def __init__(self) -> None:
        super().__init__(random.Random(1))
        self.failing = 0
        self.writes = 0

    def before_write(self, what: str) -> None:
        if what.startswith("writing t-"):
            self.writes += 1
            if self.writes == self.failing:
                raise StoreError(what)


class Leader:
    """Answers the fetches of a log that starts inside its first batch. `offsets` are those that were fetched."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.reached_end = trio.Event()

    async def fetch(self, request: FetchRequest, _timeout_ms: int) -> FetchResponse:
        await trio.lowlevel.checkpoint()
        [topic] = request.topics
        [asked] = topic.partitions
        self.offsets.append(asked.fetch_offset)
        if asked.fetch_offset == END:
            self.reached_end.set()
        data = PartitionData(partition_index=0, high_watermark=END, log_start_offset=START)
        if not START <= asked.fetch_offset <= END:
            data = PartitionData(partition_index=0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
        elif left := [each for each in BATCHES if each.last_offset >= asked.fetch_offset]:
            data = PartitionData(
                partition_index=0, high_watermark=END, log_start_offset=START, records=bytes(sent(*left))
            )
        return FetchResponse(responses=(FetchableTopicResponse(topic_id=topic.topic_id, partitions=(data,)),))

    async def list_offsets(self, request: ListOffsetsRequest, _timeout_ms: int) -> ListOffsetsResponse:
        await trio.lowlevel.checkpoint()
        found = ListOffsetsPartitionResponse(partition_index=0, offset=START)
        [topic] = request.topics
        return ListOffsetsResponse(topics=(ListOffsetsTopicResponse(name=topic.name, partitions=(found,)),))

    def close(self) -> None:
        pass


@pytest.fixture
def plan() -> FailsOnce:
    return FailsOnce()


@pytest.fixture(params=["memory", "lmdb", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path, plan: FailsOnce) -> Iterator[Store]:
    urls = {"memory": "memory://", "lmdb": f"lmdb://{tmp_path}/data", "sqlite": f"sqlite:///{tmp_path}/data.db"}
    with_faults = FaultyStore(open_store(urls[request.param]), plan)
    yield with_faults
    with_faults.close()


def follower_over(store: Store, nursery: trio.Nursery) -> tuple[Replicas, Replica]:
    replicas = replicas_over(store, nursery, Inline())
    publish(replicas, with_partitions(PartitionImage((OTHER, NODE), (OTHER,), OTHER, 4, 0)))
    replica = replicas.find("t", 0)
    assert isinstance(replica, Replica)
    return replicas, replica


async def copy(replica: Replica, leader: Leader, nursery: trio.Nursery) -> None:
    """Fetches until the leader has seen a fetch from its end."""
    settings = FetcherSettings(backoff_ms=BACKOFF_MS)
    fetcher = ReplicaFetcher(NODE, OTHER, leader, Inline(), lambda: settings, lambda: 1, Repeats())
    fetcher.add(replica)
    nursery.start_soon(fetcher.run)
    with trio.fail_after(20):
        await leader.reached_end.wait()
    fetcher.stop()


def stored(store: Store, key: PartitionKey) -> tuple[int, int, list[int]]:
    """The log's start and end on the medium, and the offsets of its batches."""
    log = store.open(key, LogPolicy())
    left = log.load()
    offsets = base_offsets(log, left.log_start_offset)
    log.close()
    return left.log_start_offset, left.log_end_offset, offsets


async def test_it_gets_the_batch_whole_and_keeps_its_log_start(store: Store, nursery: trio.Nursery) -> None:
    replicas, replica = follower_over(store, nursery)
    leader = Leader()
    await copy(replica, leader, nursery)
    assert leader.offsets[:3] == [0, START, END]
    log = replica.log
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (START, END, END)
    await replicas.close()
    assert stored(store, replica.key) == (START, END, [0, 100])


async def test_it_starts_again_if_the_batch_cannot_be_written(
    store: Store, plan: FailsOnce, nursery: trio.Nursery
) -> None:
    """As after a crash between the two steps, the log is then empty and begins at the batch."""
    plan.failing = 3  # after the restart at the leader's log start, and the truncation
    _, replica = follower_over(store, nursery)
    leader = Leader()
    await copy(replica, leader, nursery)
    assert leader.offsets[:4] == [0, START, 0, START]
    log = replica.log
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (START, END, END)


async def test_an_earlier_leader_that_ends_inside_the_batch_starts_again(store: Store, nursery: trio.Nursery) -> None:
    """Its records, which only it has, are below the leader's log start; what it knows of producers is of those."""
    entry = ProducerEntry(0, -1, 0, UNKNOWN_OFFSET, ())
    log = store.open(PartitionKey("t", TOPIC_ID, 0), LogPolicy())
    log.commit([LogWrite([make_batch(0, START)], producers={7: entry.encode()})], sync=True)
    log.commit([LogWrite(log_start_offset=10)], sync=True)
    log.close()
    replicas, replica = follower_over(store, nursery)
    leader = Leader()
    await copy(replica, leader, nursery)
    assert leader.offsets[:3] == [START, START, END]
    left = replica.log
    assert (left.log_start_offset, left.high_watermark, left.log_end_offset) == (START, END, END)
    assert dict(left.producers) == {}
    await replicas.close()
    assert stored(store, replica.key) == (START, END, [0, 100])
