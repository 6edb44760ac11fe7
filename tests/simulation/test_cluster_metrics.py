"""The metrics and the log of a cluster when a broker fails, and while a replica falls behind."""

import logging
from collections.abc import Awaitable, Callable

import pytest
import trio
from prometheus_client import CollectorRegistry
from test_three_nodes import NODES, Cluster, settings, with_cluster

from odradek.gateway.metrics.collector import BrokerCollector
from odradek.gateway.metrics.endpoint import Health
from odradek.gateway.metrics.raft import ElectionTimes
from odradek.gateway.testing.simulation.broker_host import BrokerHost
from odradek.wire.errors import ErrorCode

MANAGER = "kafka_server_replicamanager_"
CONTROLLER = "kafka_controller_kafkacontroller_"
STATS = "kafka_controller_controllerstats_"
RAFT = "kafka_server_raftmetrics_"


class Scrapes:
    """The metrics of the cluster's nodes. The times of elections are measured from now on."""

    def __init__(self, cluster: Cluster) -> None:
        self._registries: dict[int, CollectorRegistry] = {}
        for number in NODES:
            self.begin(cluster, number)

    def begin(self, cluster: Cluster, number: int) -> None:
        broker = cluster.hosts[number].broker
        assert broker is not None
        elections = ElectionTimes(broker.services)
        cluster.nursery.start_soon(elections.watch)
        self._registries[number] = CollectorRegistry()
        self._registries[number].register(BrokerCollector(broker.services, elections))

    def of(self, number: int, name: str, **labels: str) -> float:
        value = self._registries[number].get_sample_value(name, labels)
        assert value is not None, name
        return value

    async def until(self, number: int, name: str, value: float) -> None:
        with trio.fail_after(90):
            while self.of(number, name) != value:  # noqa: ASYNC110 - a scrape is all there is
                await trio.sleep(0.1)

    def reporters(self, name: str, **labels: str) -> list[int]:
        """The nodes that report this value."""
        return [each for each in NODES if self._registries[each].get_sample_value(name, labels) is not None]

    def states(self, number: int) -> list[str]:
        families = self._registries[number].collect()
        samples = [each for family in families for each in family.samples if each.name == f"{RAFT}current_state"]
        return [each.labels["current_state"] for each in samples]

    def sum(self, name: str) -> float:
        return sum(self.of(number, name) for number in NODES)


def lines(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if text in record.getMessage()]


def with_scrapes(play: Callable[[Cluster, Scrapes], Awaitable[None]]) -> None:
    async def begun(cluster: Cluster) -> None:
        assert await cluster.create(1) == 0
        await cluster.settled(1)
        await play(cluster, Scrapes(cluster))

    with_cluster(0, begun)


def test_the_death_of_a_broker_is_told(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)

    async def play(cluster: Cluster, scrapes: Scrapes) -> None:
        assert scrapes.sum(f"{CONTROLLER}activecontrollercount") == 1
        assert scrapes.sum(f"{MANAGER}leadercount") == 3
        victim = cluster.active
        witness, other = (number for number in NODES if number != victim)
        assert scrapes.of(witness, f"{RAFT}current_leader") == victim
        epoch = scrapes.of(witness, f"{RAFT}current_epoch")
        await cluster.crash(victim, power_cut=False)
        await scrapes.until(witness, f"{CONTROLLER}fencedbrokercount", 1)
        await cluster.settled(witness, isr=2)
        assert (
            scrapes.of(witness, f"{CONTROLLER}activecontrollercount")
            + scrapes.of(other, f"{CONTROLLER}activecontrollercount")
            == 1
        )
        assert scrapes.of(witness, f"{RAFT}current_leader") == cluster.active
        assert scrapes.of(witness, f"{RAFT}current_epoch") > epoch
        assert scrapes.of(witness, f"{RAFT}election_latency_max") > 0
        assert scrapes.of(cluster.active, f"{RAFT}commit_latency_avg") > 0
        state = "leader" if cluster.active == witness else "follower"
        assert scrapes.of(witness, f"{RAFT}current_state", current_state=state) == 1
        assert scrapes.of(witness, f"{STATS}leaderelectionrateandtimems_count") == 1
        assert scrapes.of(witness, f"{STATS}uncleanleaderelections_total") == 0
        assert scrapes.of(witness, f"{CONTROLLER}globalpartitioncount") == 3
        assert scrapes.of(witness, f"{CONTROLLER}offlinepartitionscount") == 0
        assert scrapes.of(witness, f"{MANAGER}underreplicatedpartitions") >= 1
        assert lines(caplog, f"in-sync replicas shrink replica={victim} reason=fenced partitions=")
        assert not lines(caplog, "LEADER_EPOCH")
        cluster.hosts[victim].start(cluster.nursery)
        await cluster.serves(victim)
        await cluster.settled(witness, isr=3)
        expands = [scrapes.of(each, f"{MANAGER}isrexpands_total") for each in (witness, other)]
        assert sum(expands) == 3
        assert len(lines(caplog, f"reason=replica {victim} joins at offset")) == 3
        scrapes.begin(cluster, victim)
        assert scrapes.of(victim, f"{STATS}leaderelectionrateandtimems_count") == 0, "it was elected while it was away"

    with_scrapes(play)


def test_the_end_of_a_partition_is_reported_by_its_leader_alone():
    async def play(cluster: Cluster, scrapes: Scrapes) -> None:
        leaders = await cluster.settled(1)
        for index, leader in leaders.items():
            assert await cluster.produce(leader, index, b"value") == 0
            labels = {"topic": "t", "partition": str(index)}
            assert scrapes.reporters("kafka_log_log_logendoffset", **labels) == [*NODES]
            assert scrapes.reporters("kafka_topic_partition_current_offset", **labels) == [leader]
            assert scrapes.of(leader, "kafka_topic_partition_current_offset", **labels) == 1

    with_scrapes(play)


def test_a_node_that_is_only_a_broker_observes_the_quorum():
    async def play(cluster: Cluster, scrapes: Scrapes) -> None:
        listens = {"process.roles": "broker", "node.id": "4", "listeners": "PLAINTEXT://node-4:9092"}
        cluster.hosts[4] = BrokerHost(cluster.world, "node-4", settings=settings(1) | listens)
        cluster.hosts[4].start(cluster.nursery)
        await cluster.serves(4)
        scrapes.begin(cluster, 4)
        states = [scrapes.states(number) for number in (cluster.active, 4)]
        assert states == [["leader"], ["observer"]]

    with_scrapes(play)


def test_a_broker_is_ready_when_it_serves_and_not_because_its_earlier_process_did():
    async def play(cluster: Cluster, _: Scrapes) -> None:
        victim = next(number for number in NODES if number != cluster.active)
        host = cluster.hosts[victim]
        await cluster.crash(victim, power_cut=False)
        host.start(cluster.nursery)
        await host.ready()
        assert host.broker is not None
        services = host.broker.services
        health = Health(services)
        was_listed = False
        while not services.life.ready.is_set():
            assert health.ready() is not None
            known = services.metadata.image.brokers.get(victim)
            was_listed |= known is not None and not known.fenced
            await trio.sleep(0.001)
        assert was_listed, "its image has the registration of the earlier process"
        assert health.ready() is None

    with_scrapes(play)


def test_a_follower_that_falls_behind_is_told_with_its_offsets(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)

    async def play(cluster: Cluster, scrapes: Scrapes) -> None:
        leader, laggard = (number for number in NODES if number != cluster.active)
        index = next(index for index, each in (await cluster.settled(leader)).items() if each == leader)
        cluster.world.network.partition(f"node-{laggard}", f"node-{leader}")
        assert await cluster.produce(leader, index, b"value") == ErrorCode.REQUEST_TIMED_OUT
        await cluster.settled(leader, isr=2)
        await scrapes.until(leader, f"{MANAGER}isrshrinks_total", 1)
        [line] = lines(caplog, f"in-sync replicas shrink partition=t-{index}")
        assert f"replica {laggard} leaves at offset 0 of 1, behind for " in line
        assert "log_end=1" in line
        cluster.world.network.heal()
        await cluster.settled(leader, isr=3)
        assert scrapes.of(leader, f"{MANAGER}isrexpands_total") == 1
        assert scrapes.of(laggard, "kafka_server_replicafetchermanager_maxlag", clientId="Replica") == 0

    with_scrapes(play)
