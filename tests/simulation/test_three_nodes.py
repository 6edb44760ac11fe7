"""Three whole nodes in one process: they form a cluster by themselves, replicate, and continue when one fails."""

from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
import trio

from odradek.gateway.replication.replicas import Replicas
from odradek.gateway.testing.simulation import World, run_virtually
from odradek.gateway.testing.simulation.broker_host import BrokerHost
from odradek.gateway.testing.simulation.loads.client import SimClient, UnreachableError
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from odradek.wire.records.batch import iter_headers
from odradek.wire.records.builder import SimpleRecord, build_batch
from odradek.wire.records.reader import read_records

VOTERS = "1@node-1:9093,2@node-2:9093,3@node-3:9093"
NODES = (1, 2, 3)
TOPIC = "t"


class Cluster:
    """The nodes' machines, and a client of each node."""

    def __init__(self, world: World, nursery: trio.Nursery, configs: dict[str, str] | None = None) -> None:
        self.world = world
        self.nursery = nursery
        all_configs = {number: settings(number) | (configs or {}) for number in NODES}
        self.hosts = {number: BrokerHost(world, f"node-{number}", settings=all_configs[number]) for number in NODES}
        self.clients = {number: SimClient(world, f"client-{number}", (f"node-{number}", 9092)) for number in NODES}

    async def start(self) -> None:
        for host in self.hosts.values():
            host.start(self.nursery)
        for number in NODES:
            await self.serves(number)

    async def serves(self, number: int) -> None:
        """Wait until a node serves clients."""
        host = self.hosts[number]
        await host.ready()
        assert host.broker is not None
        await host.broker.services.life.ready.wait()

    async def crash(self, number: int, *, power_cut: bool) -> None:
        await self.hosts[number].crash(power_cut=power_cut)
        self.clients[number].close()

    @property
    def active(self) -> int:
        """The node of the active controller."""
        [number] = [n for n, host in self.hosts.items() if host.broker and host.broker.services.leadership.is_active]
        return number

    async def create(self, at: int, **configs: str) -> int:
        given = tuple(CreatableTopicConfig(name=name, value=value) for name, value in configs.items())
        topic = CreatableTopic(name=TOPIC, num_partitions=3, replication_factor=3, configs=given)
        response = await self.clients[at].call(CreateTopicsRequest(topics=(topic,), timeout_ms=10_000), 20)
        assert isinstance(response, CreateTopicsResponse)
        return response.topics[0].error_code

    async def metadata(self, at: int) -> MetadataResponse:
        response = await self.clients[at].call(MetadataRequest(topics=(MetadataRequestTopic(name=TOPIC),)))
        assert isinstance(response, MetadataResponse)
        return response

    async def settled(self, at: int, isr: int = 3) -> dict[int, int]:
        """The leaders of all partitions, once each has one and `isr` replicas are in sync."""
        with trio.fail_after(120):
            while True:
                described = (await self.metadata(at)).topics[0]
                parts = described.partitions
                if len(parts) == 3 and all(part.leader_id > 0 and len(part.isr_nodes) >= isr for part in parts):
                    return {part.partition_index: part.leader_id for part in parts}
                await trio.sleep(0.1)

    async def produce(
        self, at: int, index: int, value: bytes, timeout_s: float = 5, *, batch: bytes = b"", transactional_id=None
    ) -> int:
        records = memoryview(batch or build_batch([SimpleRecord(None, value)]))
        data = TopicProduceData(name=TOPIC, partition_data=(PartitionProduceData(index=index, records=records),))
        request = ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=4000, topic_data=(data,))
        response = await self.clients[at].call(request, timeout_s)
        assert isinstance(response, ProduceResponse)
        return response.responses[0].partition_responses[0].error_code

    async def values(self, at: int, index: int) -> list[bytes]:
        partition = FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=(FetchTopic(topic=TOPIC, partitions=(partition,)),)
        )
        response = await self.clients[at].call(request)
        assert isinstance(response, FetchResponse)
        [part] = response.responses[0].partitions
        assert part.error_code == 0
        chunk = memoryview(bytes(part.records or b""))
        return [record.value or b"" for header in iter_headers(chunk) for record in read_records(chunk, header)]

    async def committed(self, at: int, index: int, count: int) -> list[bytes]:
        """The values, once there are `count`: a new leader has a high watermark only when the others have fetched."""
        with trio.move_on_after(20):
            while len(await self.values(at, index)) < count:  # noqa: ASYNC110 - only the broker knows
                await trio.sleep(0.1)
        return await self.values(at, index)


def settings(number: int) -> dict[str, str]:
    return {
        "node.id": str(number),
        "process.roles": "broker,controller",
        "controller.quorum.voters": VOTERS,
        "listeners": f"PLAINTEXT://node-{number}:9092,CONTROLLER://node-{number}:9093",
        "min.insync.replicas": "2",
        "group.initial.rebalance.delay.ms": "0",
    }


def with_cluster(seed: int, play: Callable[[Cluster], Awaitable[None]], configs: dict[str, str] | None = None) -> str:
    async def main() -> str:
        world = World(seed)
        world.network.faults.delay_ms = (0.1, 5)
        async with trio.open_nursery() as nursery:
            cluster = Cluster(world, nursery, configs)
            with trio.fail_after(60):
                await cluster.start()
            await play(cluster)
            nursery.cancel_scope.cancel()
        world.close()
        return world.trace.digest

    return run_virtually(seed, main)


@pytest.mark.parametrize("seed", range(3))
def test_three_nodes_form_a_cluster_and_any_of_them_creates_a_replicated_topic(seed):
    async def play(cluster: Cluster) -> None:
        follower = next(number for number in NODES if number != cluster.active)
        assert await cluster.create(follower) == 0
        leaders = await cluster.settled(follower)
        assert sorted(leaders.values()) == [1, 2, 3]
        for index, leader in leaders.items():
            assert await cluster.produce(leader, index, b"value") == 0
            assert await cluster.values(leader, index) == [b"value"]
        for number in NODES:
            brokers = (await cluster.metadata(number)).brokers
            assert {(each.node_id, each.host) for each in brokers} == {(n, f"node-{n}") for n in NODES}
        ids = {(await cluster.metadata(number)).cluster_id for number in NODES}
        assert len(ids) == 1
        assert None not in ids

    with_cluster(seed, play)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("power_cut", [False, True])
def test_what_was_acknowledged_outlives_its_leader(seed, power_cut):
    async def play(cluster: Cluster) -> None:
        assert await cluster.create(1) == 0
        leaders = await cluster.settled(1)
        victim = leaders[0]
        for number in range(5):
            assert await cluster.produce(victim, 0, b"%d" % number) == 0
        await cluster.crash(victim, power_cut=power_cut)
        witness = next(number for number in NODES if number != victim)
        leader = (await cluster.settled(witness, isr=2))[0]
        with trio.fail_after(60):
            while leader == victim:
                await trio.sleep(0.1)
                leader = (await cluster.settled(witness, isr=2))[0]
        assert await cluster.committed(leader, 0, 5) == [b"%d" % number for number in range(5)]
        assert await cluster.produce(leader, 0, b"after") == 0
        cluster.hosts[victim].start(cluster.nursery)
        await cluster.serves(victim)
        await cluster.settled(witness, isr=3)

    with_cluster(seed, play)


def test_a_follower_behind_catches_up_by_responses_larger_than_the_requests_that_brokers_take():
    async def play(cluster: Cluster) -> None:
        assert await cluster.create(1) == 0
        leader = (await cluster.settled(1))[0]
        follower = next(number for number in NODES if number != leader)
        await cluster.crash(follower, power_cut=False)
        for _ in range(5):
            code = await cluster.produce(leader, 0, bytes(8_000))
            assert code in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT), "written, also while the follower is in sync"
        cluster.hosts[follower].start(cluster.nursery)
        await cluster.serves(follower)
        await cluster.settled(leader, isr=3)

    with_cluster(0, play, {"socket.request.max.bytes": "10000"})


def sequenced(sequence: int) -> bytes:
    return build_batch([SimpleRecord(None, b"value")], producer_id=7, producer_epoch=0, base_sequence=sequence)


def test_a_producers_second_batch_is_not_taken_while_its_first_was_refused_for_too_few_in_sync():
    async def play(cluster: Cluster) -> None:
        assert await cluster.create(1, **{"min.insync.replicas": "3"}) == 0
        leader = (await cluster.settled(1))[0]
        follower = next(number for number in NODES if number != leader)
        await cluster.crash(follower, power_cut=False)
        codes = [0]
        with trio.fail_after(60):
            while codes[-1] != ErrorCode.NOT_ENOUGH_REPLICAS:
                await trio.sleep(0.5)
                codes.append(await cluster.produce(leader, 0, b"value"))
        assert await cluster.produce(leader, 0, b"", batch=sequenced(0)) == ErrorCode.NOT_ENOUGH_REPLICAS
        cluster.hosts[follower].start(cluster.nursery)
        await cluster.settled(leader, isr=3)
        assert await cluster.produce(leader, 0, b"", batch=sequenced(1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert await cluster.produce(leader, 0, b"", batch=sequenced(0)) == 0
        assert await cluster.produce(leader, 0, b"", batch=sequenced(1)) == 0

    with_cluster(0, play)


def test_a_producers_second_batch_is_not_taken_where_a_follower_has_refused_its_first():
    async def play(cluster: Cluster) -> None:
        assert await cluster.create(1) == 0
        leader = (await cluster.settled(1))[0]
        for follower in (number for number in NODES if number != leader):
            assert await cluster.produce(follower, 0, b"", batch=sequenced(0)) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        await cluster.crash(leader, power_cut=False)
        elected = leader
        with trio.fail_after(60):
            while elected == leader:
                await trio.sleep(0.2)
                elected = (await cluster.settled(follower, isr=2))[0]
        assert await cluster.produce(elected, 0, b"", batch=sequenced(1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert await cluster.produce(elected, 0, b"", batch=sequenced(0)) == 0
        assert await cluster.produce(elected, 0, b"", batch=sequenced(1)) == 0

    with_cluster(0, play)


def test_a_transactional_batch_is_refused_by_a_follower():
    async def play(cluster: Cluster) -> None:
        assert await cluster.create(1) == 0
        leaders = await cluster.settled(1)
        follower = next(number for number in NODES if number != leaders[0])
        batch = build_batch(
            [SimpleRecord(None, b"value")], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True
        )
        code = await cluster.produce(follower, 0, b"", batch=batch, transactional_id="teller")
        assert code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    with_cluster(0, play)


def test_a_broker_that_stops_gives_its_partitions_away_first():
    async def play(cluster: Cluster) -> None:
        assert await cluster.create(1) == 0
        leaders = await cluster.settled(1)
        victim = leaders[0]
        witness = next(number for number in NODES if number != victim)
        await cluster.hosts[victim].stop()
        described = (await cluster.metadata(witness)).topics[0].partitions
        assert victim not in {part.leader_id for part in described}
        assert all(len(part.isr_nodes) == 2 for part in described)

    with_cluster(0, play)


def test_a_broker_that_stops_fetches_no_more_when_it_closes_its_logs(monkeypatch):
    async def play(cluster: Cluster) -> None:
        assert await cluster.create(1) == 0
        leader = (await cluster.settled(1))[0]
        assert await cluster.produce(leader, 0, b"value") == 0
        follower = next(number for number in NODES if number != leader)
        broker = cluster.hosts[follower].broker
        assert broker is not None
        assert broker.services.replication.lags()
        close, lags = Replicas.close, []

        async def noted(replicas: Replicas) -> bool:
            lags.append(broker.services.replication.lags())
            return await close(replicas)

        monkeypatch.setattr(Replicas, "close", noted)
        await cluster.hosts[follower].stop()
        assert lags == [[]]

    with_cluster(0, play)


def test_without_a_majority_nothing_is_decided_and_with_one_it_is_again():
    async def play(cluster: Cluster) -> None:
        for victim in (1, 2):
            await cluster.crash(victim, power_cut=True)
        assert not await created(cluster, 3)
        cluster.hosts[1].start(cluster.nursery)
        await cluster.serves(1)
        with trio.fail_after(60):
            while not await created(cluster, 1):  # noqa: ASYNC110 - only the broker knows
                await trio.sleep(0.5)

    async def created(cluster: Cluster, at: int) -> bool:
        with suppress(UnreachableError):
            return await cluster.create(at) in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        return False

    with_cluster(1, play)


def test_one_seed_gives_one_course_of_events():
    async def play(cluster: Cluster) -> None:
        await cluster.create(1)
        leaders = await cluster.settled(1)
        await cluster.produce(leaders[0], 0, b"value")

    assert with_cluster(5, play) == with_cluster(5, play)
