"""Replicas over a store in memory that lead and follow as a metadata image assigns them."""

import random
from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

import outcome
import trio

from odradek.coordinator.configs.definition import ResourceType
from odradek.coordinator.contract import Outcome, ShardRecord, Token
from odradek.coordinator.metadata.image.delta import MetadataDelta
from odradek.coordinator.metadata.image.image import MetadataImage, PartitionImage, TopicImage
from odradek.gateway.env.deadlines import Deadlines
from odradek.gateway.env.environment import ProductionEnvironment
from odradek.gateway.env.repeats import Repeats
from odradek.gateway.env.signals import Ticker
from odradek.gateway.replication.commit import Backlog
from odradek.gateway.replication.replica import LogResources, Replica
from odradek.gateway.replication.replicas import Replicas
from odradek.partitions.config import LogConfig
from odradek.partitions.leader import FollowerFetch
from odradek.partitions.model import StoredBatch
from odradek.partitions.results import FetchPlan
from odradek.storage_backends.faulty import FaultPlan, FaultyStore
from odradek.storage_backends.memory import MemoryStore
from odradek.storage_backends.memory.medium import MemoryMedium
from odradek.wire.records.batch import iter_headers

T = TypeVar("T")
NODE, OTHER = 1, 2
TOPIC_ID = UUID(int=7)


class Inline(ProductionEnvironment):
    async def run_blocking(self, call: Callable[[], T]) -> T:
        await trio.lowlevel.checkpoint()
        return call()


class HeldUp(Inline):
    """Commits wait until `go` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.go = trio.Event()

    def start_blocking(
        self, nursery: trio.Nursery, call: Callable[[], T], done: Callable[[outcome.Outcome[T]], None]
    ) -> None:
        async def wait() -> None:
            await self.go.wait()
            done(outcome.capture(call))

        nursery.start_soon(wait)


def min_insync_of(image: MetadataImage, topic: str) -> LogConfig:
    """The settings of a topic, of which only `min.insync.replicas` can be changed."""
    text = image.configs_of(ResourceType.TOPIC, topic).get("min.insync.replicas", "1")
    return LogConfig(min_insync_replicas=int(text))


def replicas_over(store: FaultyStore | MemoryStore, nursery: trio.Nursery, env: Inline | None = None) -> Replicas:
    """Replicas of broker NODE."""
    env = env or Inline()
    resources = LogResources(store, env, Ticker(nursery), Deadlines(env, nursery), Backlog(1 << 20), 1000, Repeats())
    return Replicas(resources, NODE, min_insync_of)


def faulty_replicas(nursery: trio.Nursery, env: Inline | None = None) -> tuple[Replicas, FaultPlan]:
    """Replicas of broker NODE, and the faults of their store."""
    plan = FaultPlan(random.Random(1))
    return replicas_over(FaultyStore(MemoryStore(MemoryMedium()), plan), nursery, env), plan


def with_partitions(*partitions: PartitionImage) -> MetadataDelta:
    delta = MetadataDelta()
    delta.topics.create(TopicImage("t", TOPIC_ID, ()))
    for index, partition in enumerate(partitions):
        delta.topics.set_partition(TOPIC_ID, index, partition)
    return delta


def publish(replicas: Replicas, delta: MetadataDelta) -> MetadataDelta:
    delta.advance(delta.offset + 1, 0)
    image = delta.apply()
    replicas.on_published(delta, image)
    return MetadataDelta(image)


def sent(*batches: StoredBatch, epoch: int = 0) -> memoryview:
    """Batches as a leader sends them."""
    data = b"".join([bytes(batch.data) for batch in batches])
    for header in iter_headers(memoryview(data)):
        assert header.partition_leader_epoch == epoch
    return memoryview(data)


def with_epoch(batch: bytes, epoch: int) -> memoryview:
    """A client's batch as a leader of this epoch sends it, at offset 0."""
    data = bytearray(batch)
    data[12:16] = epoch.to_bytes(4, "big")
    return memoryview(data)


def fetches(replica: Replica, broker_id: int, offset: int, *, epoch: int, last: int, start: int = 0) -> FetchPlan:
    """The plan for a follower's fetch, once it is recorded."""
    follower = FollowerFetch(broker_id, 0, start)
    plan = replica.plan_follower_fetch(
        follower, offset, max_bytes=1000, current_leader_epoch=epoch, last_fetched_epoch=last
    )
    assert isinstance(plan, FetchPlan)
    replica.record_fetch(follower, plan)
    return plan


class Recorded:
    """A shard that has replayed `count` records, and does nothing."""

    def __init__(self) -> None:
        self.count = 0

    def replay(self, _record: ShardRecord, _offset: int, _epoch: int, _now_ms: int) -> None:
        self.count += 1

    def on_loaded(self, _now_ms: int) -> Outcome:
        return Outcome()

    def next_deadline_ms(self) -> int | None:
        return None

    def forget(self, token: Token) -> None:
        pass
