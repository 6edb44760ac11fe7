"""One controller and several brokers: the same rules apply to its own broker, if it has one, as to the others."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from uuid import UUID

import pytest
import trio

from odradek.coordinator.metadata.image.image import BrokerImage, MetadataImage, PartitionImage
from odradek.gateway.assembly import Services
from odradek.gateway.testing.simulation import World, run_virtually
from odradek.gateway.testing.simulation.broker_host import BrokerHost
from odradek.gateway.testing.simulation.loads.client import SimClient
from odradek.partitions.metadata_log import METADATA_KEY, METADATA_TOPIC
from odradek.wire.api_keys import ApiKey
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.wire.messages.describe_cluster import DescribeClusterRequest
from odradek.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.messages.unregister_broker import UnregisterBrokerRequest
from odradek.wire.records.batch import iter_headers
from odradek.wire.records.builder import SimpleRecord, build_batch
from odradek.wire.records.reader import read_records

COMBINED, BROKER, CONTROLLER = "broker,controller", "broker", "controller"
SESSION_S = 3
VERSIONS = {ApiKey.DESCRIBE_CLUSTER: 1, ApiKey.UNREGISTER_BROKER: 0, ApiKey.DESCRIBE_QUORUM: 2}
TOPIC = "t"


class Cluster:
    """A cluster in which node 1 is the only voter; `roles` are the `process.roles` of each node."""

    def __init__(
        self, world: World, nursery: trio.Nursery, roles: Mapping[int, str], further: Mapping[str, str]
    ) -> None:
        self.world = world
        self.nursery = nursery
        self.hosts = {
            node: BrokerHost(world, f"node-{node}", settings={**settings(node, each), **further})
            for node, each in roles.items()
        }
        self.clients = {
            node: SimClient(world, f"client-{node}", (f"node-{node}", 9092), VERSIONS)
            for node, each in roles.items()
            if each != CONTROLLER
        }

    async def start(self, *nodes: int) -> None:
        for node in nodes:
            self.hosts[node].start(self.nursery)
        for node in nodes:
            await self.hosts[node].ready()
            with trio.fail_after(60):
                await self.services(node).life.ready.wait()

    async def crash(self, node: int, *, power_cut: bool = False) -> None:
        await self.hosts[node].crash(power_cut=power_cut)
        if node in self.clients:
            self.clients[node].close()

    async def stop(self, node: int) -> None:
        await self.hosts[node].stop()
        self.clients[node].close()

    @property
    def running(self) -> list[int]:
        return [node for node, host in self.hosts.items() if host.broker is not None]

    def services(self, node: int = 1) -> Services:
        broker = self.hosts[node].broker
        assert broker is not None
        return broker.services

    def image(self, node: int = 1) -> MetadataImage:
        return self.services(node).metadata.image

    def known(self, node: int, at: int = 1) -> BrokerImage:
        return self.image(at).brokers[node]

    def part(self, at: int = 1, index: int = 0) -> PartitionImage:
        found = self.image(at).partition(TOPIC, index)
        assert found is not None
        return found

    async def until(self, condition: Callable[[], bool], limit_s: float = 60) -> float:
        """Wait for `condition`; returns the seconds that it took."""
        began = trio.current_time()
        with trio.move_on_after(limit_s):
            while not condition():  # noqa: ASYNC110 - of virtual time
                await trio.sleep(0.05)
        assert condition(), self.image().topics_by_name.get(TOPIC)
        return trio.current_time() - began

    async def create(self, at: int, replication_factor: int, partitions: int = 1, **configs: str) -> int:
        given = tuple(CreatableTopicConfig(name=name.replace("_", "."), value=text) for name, text in configs.items())
        topic = CreatableTopic(
            name=TOPIC, num_partitions=partitions, replication_factor=replication_factor, configs=given
        )
        answer = await self.clients[at].call(CreateTopicsRequest(topics=(topic,), timeout_ms=10_000), 20)
        if not answer.topics[0].error_code:
            await self.until(lambda: all(TOPIC in self.image(node).topics_by_name for node in self.running))
        return answer.topics[0].error_code

    async def produce(self, at: int, *values: bytes, index: int = 0) -> int:
        records = memoryview(build_batch([SimpleRecord(None, value) for value in values]))
        data = TopicProduceData(name=TOPIC, partition_data=(PartitionProduceData(index=index, records=records),))
        answer = await self.clients[at].call(ProduceRequest(acks=-1, timeout_ms=4000, topic_data=(data,)), 10)
        return answer.responses[0].partition_responses[0].error_code

    async def values(self, at: int) -> list[bytes]:
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        topics = (FetchTopic(topic=TOPIC, partitions=(partition,)),)
        answer = await self.clients[at].call(FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=topics))
        chunk = memoryview(bytes(answer.responses[0].partitions[0].records or b""))
        return [record.value or b"" for header in iter_headers(chunk) for record in read_records(chunk, header)]

    async def committed(self, at: int, count: int) -> list[bytes]:
        """The values, once there are `count`: a new leader has a high watermark only when the others have fetched."""
        with trio.move_on_after(20):
            while len(await self.values(at)) < count:  # noqa: ASYNC110 - only the broker knows
                await trio.sleep(0.1)
        return await self.values(at)

    async def described(self, at: int) -> list[int]:
        answer = await self.clients[at].call(DescribeClusterRequest())
        assert answer.error_code == 0
        return sorted(each.broker_id for each in answer.brokers)

    async def observers(self) -> list[int]:
        part = DescribeQuorumRequestPartitionData(partition_index=0)
        topic = DescribeQuorumRequestTopicData(topic_name=METADATA_TOPIC, partitions=(part,))
        answer = await self.clients[1].call(DescribeQuorumRequest(topics=(topic,)))
        return [each.replica_id for each in answer.topics[0].partitions[0].observers]


def settings(node: int, roles: str) -> dict[str, str]:
    listeners = {BROKER: f"PLAINTEXT://node-{node}:9092", CONTROLLER: f"CONTROLLER://node-{node}:9093"}
    return {
        "node.id": str(node),
        "process.roles": roles,
        "listeners": ",".join(listeners[role] for role in roles.split(",")),
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@node-1:9093",
        "broker.session.timeout.ms": str(SESSION_S * 1000),
        "broker.heartbeat.interval.ms": "500",
        "offsets.topic.replication.factor": "1",
    }


def play_with(
    roles: Mapping[int, str],
    play: Callable[[Cluster], Awaitable[None]],
    seed: int = 0,
    starts: Collection[int] | None = None,
    settings: Mapping[str, str] | None = None,
) -> None:
    async def main() -> None:
        world = World(seed)
        world.network.faults.delay_ms = (0.1, 5)
        async with trio.open_nursery() as nursery:
            cluster = Cluster(world, nursery, roles, settings or {})
            for node in roles if starts is None else starts:
                await cluster.start(node)
            await play(cluster)
            nursery.cancel_scope.cancel()
        world.close()

    run_virtually(seed, main)


TWO: Mapping[int, str] = {1: COMBINED, 2: BROKER}
THREE: Mapping[int, str] = {1: COMBINED, 2: BROKER, 3: BROKER}
APART: Mapping[int, str] = {1: CONTROLLER, 2: BROKER, 3: BROKER, 4: BROKER}


async def in_sync(cluster: Cluster, at: int, *replicas: int) -> None:
    await cluster.until(lambda: set(cluster.part(at).isr) == set(replicas))


# A broker that fails


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("roles", [TWO, THREE, APART], ids=["two", "three", "apart"])
def test_a_dead_broker_is_fenced_within_its_session_and_others_lead(roles, seed):
    async def play(cluster: Cluster) -> None:
        brokers = list(cluster.clients)
        assert await cluster.create(2, len(brokers), len(brokers)) == 0
        for index in range(len(brokers)):
            await cluster.until(lambda index=index: len(cluster.part(1, index).isr) == len(brokers))
        led = next(index for index in range(len(brokers)) if cluster.part(1, index).leader == 2)
        before = cluster.part(1, led)
        assert await cluster.produce(2, b"before", index=led) == 0
        await cluster.crash(2)
        took_s = await cluster.until(lambda: cluster.known(2).fenced, SESSION_S + 2)
        assert took_s > SESSION_S - 1
        after = cluster.part(1, led)
        assert after.leader not in (2, -1)
        assert after.leader_epoch == before.leader_epoch + 1
        assert 2 not in after.isr
        await cluster.until(lambda: cluster.part(after.leader, led) == after)
        assert await cluster.produce(after.leader, b"after", index=led) == 0
        await cluster.start(2)
        assert not cluster.known(2).fenced
        await cluster.until(lambda: len(cluster.part(1, led).isr) == len(brokers))

    play_with(roles, play, seed)


def test_without_another_replica_the_partition_waits_for_the_broker():
    async def play(cluster: Cluster) -> None:
        assert await cluster.create(1, 1, 2) == 0
        index = next(index for index in range(2) if cluster.part(1, index).leader == 2)
        assert await cluster.produce(2, b"before", index=index) == 0
        await cluster.crash(2)
        await cluster.until(lambda: cluster.part(1, index).leader == -1, SESSION_S + 2)
        await cluster.start(2)
        await cluster.until(lambda: cluster.part(1, index).leader == 2)
        await cluster.until(lambda: cluster.part(2, index).leader == 2)
        assert await cluster.produce(2, b"after", index=index) == 0

    play_with(TWO, play)


def test_preferred_leaders_lead_again_by_themselves():
    async def play(cluster: Cluster) -> None:
        assert await cluster.create(2, 2, 2) == 0
        index = next(index for index in range(2) if cluster.part(1, index).leader == 2)
        await cluster.until(lambda: len(cluster.part(1, index).isr) == 2)
        await cluster.crash(2)
        await cluster.until(lambda: cluster.part(1, index).leader == 1)
        await cluster.start(2)
        await cluster.until(lambda: cluster.part(1, index).leader == 2, 400)  # leader.imbalance.check.interval.seconds

    play_with(TWO, play)


def test_a_dead_broker_can_be_removed():
    async def play(cluster: Cluster) -> None:
        await cluster.crash(2)
        await cluster.until(lambda: cluster.known(2).fenced)
        answer = await cluster.clients[1].call(UnregisterBrokerRequest(broker_id=2))
        assert answer.error_code == 0
        assert list(cluster.image().brokers) == [1]
        assert await cluster.create(1, 1) == 0
        await cluster.stop(1)
        await cluster.start(1)
        assert cluster.part().leader == 1
        assert await cluster.produce(1, b"alone again") == 0

    play_with(TWO, play)


def test_a_broker_that_has_gone_is_no_observer_after_five_minutes():
    async def play(cluster: Cluster) -> None:
        assert await cluster.observers() == [2, 3]
        await cluster.crash(2)
        await trio.sleep(60)
        assert await cluster.observers() == [2, 3]
        await trio.sleep(300)
        assert await cluster.observers() == [3]

    play_with(THREE, play)


@pytest.mark.parametrize("lost", [[METADATA_KEY.topic_id], []], ids=["log", "log and snapshots"])
def test_a_broker_whose_metadata_log_is_lost_fetches_it_again(lost: Collection[UUID]):
    """Its partitions are kept, and are set aside neither at the start nor later."""

    async def play(cluster: Cluster) -> None:
        assert await cluster.create(2, 2) == 0
        await in_sync(cluster, 1, 1, 2)
        for value in (b"1", b"2"):
            assert await cluster.produce(cluster.part().leader, value) == 0
        await cluster.until(lambda: cluster.services(2).quorum.replica.newest_snapshot is not None)
        await cluster.crash(2)
        disk = cluster.world.disk(cluster.hosts[2].host)
        kept = {key for key in disk.logs if key.topic != METADATA_TOPIC or (lost and key.topic_id not in lost)}
        assert len(kept) < len(disk.logs)
        disk.lose(kept.__contains__, lambda _name: True)
        await cluster.start(2)
        await in_sync(cluster, 2, 1, 2)
        assert {key for key in kept if key.topic == TOPIC} <= set(disk.logs)
        await cluster.crash(1)
        assert await cluster.values(2) == [b"1", b"2"]

    play_with(TWO, play, settings={"metadata.log.max.record.bytes.between.snapshots": "500"})


# The sole voter


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("power_cut", [False, True])
def test_a_sole_voter_that_dies_leaves_the_in_sync_replicas_and_nothing_is_lost(power_cut, seed):
    async def play(cluster: Cluster) -> None:
        assert await cluster.create(1, 2, min_insync_replicas="1") == 0
        await in_sync(cluster, 1, 1, 2)
        before, epoch = cluster.part(), cluster.known(1).epoch
        values = [b"%d" % number for number in range(5)]
        for value in values:
            assert await cluster.produce(before.leader, value) == 0
        await cluster.crash(1, power_cut=power_cut)
        await cluster.start(1)
        assert cluster.known(1).epoch > epoch
        await cluster.until(lambda: cluster.part(2).partition_epoch > before.partition_epoch)
        after = cluster.part()
        assert after.leader == 2
        if before.leader == 1:
            assert after.leader_epoch == before.leader_epoch + 1
        await in_sync(cluster, 2, 1, 2)
        assert await cluster.committed(2, len(values)) == values

    play_with(TWO, play, seed)


def test_its_registration_takes_it_out_before_it_serves():
    async def play(cluster: Cluster) -> None:
        assert await cluster.create(1, 2) == 0
        await in_sync(cluster, 1, 1, 2)
        before = cluster.part()
        await cluster.crash(2)  # so that it does not fetch, and the sole voter cannot get back in sync
        await cluster.crash(1)
        await cluster.start(1)
        after = cluster.part()
        assert (after.leader, after.isr) == (2, (2,))
        assert after.partition_epoch > before.partition_epoch
        await cluster.until(lambda: cluster.known(2).fenced, SESSION_S + 2)
        assert cluster.part().leader == -1, "the other replica alone was in sync"
        await cluster.start(2)
        await cluster.until(lambda: cluster.part().leader == 2)
        await in_sync(cluster, 1, 1, 2)

    play_with(TWO, play)


def test_a_partition_of_its_own_is_led_again_in_another_epoch():
    async def play(cluster: Cluster) -> None:
        assert await cluster.create(1, 1, 2) == 0
        index = next(index for index in range(2) if cluster.part(1, index).leader == 1)
        before = cluster.part(1, index)
        assert await cluster.produce(1, b"before", index=index) == 0
        await cluster.crash(1, power_cut=True)
        await cluster.start(1)
        await cluster.until(lambda: cluster.part(1, index).leader == 1)
        assert cluster.part(1, index).leader_epoch > before.leader_epoch
        assert await cluster.produce(1, b"after", index=index) == 0

    play_with(TWO, play)


def test_a_sole_voter_that_stops_gives_its_partitions_away_and_its_places_stand():
    async def play(cluster: Cluster) -> None:
        assert await cluster.create(1, 2, 2) == 0
        for index in range(2):
            await cluster.until(lambda index=index: len(cluster.part(1, index).isr) == 2)
        epoch = cluster.known(1).epoch
        began = trio.current_time()
        await cluster.stop(1)
        assert trio.current_time() - began < SESSION_S
        for index in range(2):
            assert (cluster.part(2, index).leader, cluster.part(2, index).isr) == (2, (2,))
            assert await cluster.produce(2, b"meanwhile", index=index) == 0
        assert cluster.known(1, at=2).in_controlled_shutdown
        await cluster.start(1)
        assert cluster.known(1).epoch > epoch
        assert not cluster.known(1).fenced
        await in_sync(cluster, 1, 1, 2)

    play_with(TWO, play)


def test_a_sole_voter_that_stopped_last_leads_again_out_of_the_elr():
    async def play(cluster: Cluster) -> None:
        assert await cluster.create(1, 2) == 0
        await in_sync(cluster, 1, 1, 2)
        await cluster.stop(2)
        assert (cluster.part().leader, cluster.part().isr) == (1, (1,))
        assert await cluster.produce(1, b"value") == 0
        await cluster.stop(1)
        await cluster.start(1)
        await cluster.until(lambda: cluster.part().leader == 1)
        assert cluster.part().leader_recovery_state == 0, "its end was clean: it was eligible"
        assert await cluster.values(1) == [b"value"]

    play_with(TWO, play)


def test_a_broker_that_stops_is_released_soon():
    """The controller's own broker has to report its metadata offset like every other broker."""

    async def play(cluster: Cluster) -> None:
        assert await cluster.create(1, 2, 2) == 0
        for index in range(2):
            await cluster.until(lambda index=index: len(cluster.part(1, index).isr) == 2)
        began = trio.current_time()
        await cluster.stop(2)
        assert trio.current_time() - began < SESSION_S
        assert cluster.known(2).fenced

    play_with(TWO, play)


@pytest.mark.parametrize("seed", range(6))
def test_a_sole_voter_that_was_suspended_fences_nobody(seed):
    async def play(cluster: Cluster) -> None:
        assert await cluster.create(1, 1, 2) == 0
        await trio.sleep(0.1 * seed)
        before = {index: cluster.part(1, index) for index in range(2)}
        cluster.hosts[1].pause.begin()
        await trio.sleep(4 * SESSION_S)
        cluster.hosts[1].pause.end()
        await trio.sleep(2 * SESSION_S)
        assert {index: cluster.part(1, index) for index in before} == before

    play_with(TWO, play, seed)


def test_alone_it_sends_no_heartbeats_and_keeps_its_leader_epochs():
    async def play(cluster: Cluster) -> None:
        assert await cluster.create(1, 1) == 0
        offset, before = cluster.image().offset, cluster.part()
        await trio.sleep(60)
        assert cluster.image().offset == offset
        assert cluster.services().life.is_alone
        await cluster.crash(1)
        await cluster.start(1)
        assert cluster.part() == before
        await cluster.start(2)
        assert not cluster.services().life.is_alone
        await trio.sleep(3 * SESSION_S)
        assert not cluster.known(1).fenced
        assert cluster.part() == before, "the same incarnation goes on"

    play_with(TWO, play, starts=[1])


# A controller without a broker


def test_a_controller_alone_is_no_broker():
    async def play(cluster: Cluster) -> None:
        assert list(cluster.image().brokers) == [2, 3, 4]
        assert await cluster.described(2) == [2, 3, 4]
        assert await cluster.create(2, 4) == ErrorCode.INVALID_REPLICATION_FACTOR
        assert await cluster.create(2, 3, 6) == 0
        parts = [cluster.part(1, index) for index in range(6)]
        assert all(set(each.replicas) == {2, 3, 4} for each in parts)
        assert {each.leader for each in parts} == {2, 3, 4}
        await cluster.crash(1, power_cut=True)
        await cluster.start(1)
        assert list(cluster.image().brokers) == [2, 3, 4]
        await trio.sleep(2 * SESSION_S)
        assert not any(each.fenced for each in cluster.image().brokers.values())

    play_with(APART, play)


def test_what_an_earlier_version_registered_for_a_controller_is_removed():
    async def play(cluster: Cluster) -> None:
        controller, cluster_id = cluster.services().controller, cluster.image().cluster_id
        await controller.register(cluster_id, {}, None, UUID(int=1))  # as earlier versions did
        assert await cluster.create(2, 4) == 0
        await cluster.until(lambda: 1 in cluster.image(2).brokers)
        await cluster.crash(1)
        await cluster.start(1)
        assert list(cluster.image().brokers) == [2, 3, 4]
        assert 1 not in cluster.part().isr
        await cluster.until(lambda: list(cluster.image(2).brokers) == [2, 3, 4])

    play_with(APART, play)


def test_the_broker_of_a_node_that_is_a_controller_alone_by_now_is_fenced_and_can_be_removed():
    async def play(cluster: Cluster) -> None:
        await cluster.crash(1)
        cluster.hosts[1].settings.update(settings(1, CONTROLLER))
        await cluster.start(1)
        await cluster.until(lambda: cluster.known(1).fenced, SESSION_S + 2)
        answer = await cluster.clients[2].call(UnregisterBrokerRequest(broker_id=1))
        assert answer.error_code == 0
        assert list(cluster.image().brokers) == [2]

    play_with(TWO, play)
