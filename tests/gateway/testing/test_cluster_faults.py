"""Real brokers as processes, librdkafka's clients, and faults; the clients' operations are checked.

Nothing that was acknowledged with acks=all is lost, nothing uncommitted is read, nothing is duplicated, and every
client is served again after each fault, for most faults while it lasts. `compat_tests/test_cluster_history.py` adds
Java's clients.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

import odradek
from compat_tests.history.faults import BEGIN, END, FAULTS, SETTINGS, link_cut, make_whole
from compat_tests.history.load import Load
from compat_tests.history.served import ServedTimes
from odradek.gateway.testing.cluster import TestCluster
from tests.long_form import rounds

pytestmark = pytest.mark.timeout(600)

PARTITIONS = 3
Measuring = Callable[[str, object], None]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestCluster]:
    with odradek.cluster(3, SETTINGS, tmp_path_factory.mktemp("cluster"), quick=False) as running:
        yield running


@contextmanager
def loaded(cluster: TestCluster, topic: str, tell: Measuring) -> Iterator[Load]:
    """Clients at work on a new topic; at the end the cluster is repaired and their operations are checked."""
    cluster.create_topic(topic, PARTITIONS, 3, {"min.insync.replicas": 2})
    times = ServedTimes(f"Odradek, {len(cluster.ids)} nodes", tell)
    with Load(cluster.bootstrap, topic, PARTITIONS, times=times) as load:
        try:
            yield load
        finally:
            make_whole(cluster)
        load.served_again("everything", END)
        assert load.judged() == []


@pytest.mark.parametrize("name", FAULTS)
def test_clients_are_served_again(cluster: TestCluster, name: str, record_property: Measuring):
    with loaded(cluster, name, record_property) as load:
        FAULTS[name](cluster, load)


def test_a_broker_that_never_comes_back(cluster: TestCluster):
    cluster.create_topic("for-ever", PARTITIONS, 3, {"min.insync.replicas": 2})
    try:
        with Load(cluster.bootstrap, "for-ever", PARTITIONS) as load:
            cluster.kill(cluster.leader("for-ever", 0))
            load.served_again("kill -9 of the leader", BEGIN)
            assert load.judged() == []
    finally:
        make_whole(cluster)


def test_producers_that_die_in_the_middle_of_a_send(cluster: TestCluster, record_property: Measuring):
    with loaded(cluster, "dying-producers", record_property) as load:
        victims = [load.victim("plain"), load.victim("transactional")]
        for victim in victims:
            victim.await_work()
            victim.kill()
        load.served_again("kill -9 of producers", BEGIN)


def test_consumers_that_die(cluster: TestCluster, record_property: Measuring):
    """One member of each group is killed; the other one gets its partitions, from the committed offsets on."""
    with loaded(cluster, "dying-consumers", record_property) as load:
        victims = [load.victim("member", group=group) for group in load.members]
        for victim in victims:
            victim.await_work(2)
            victim.kill()
        load.served_again("kill -9 of members", BEGIN)


def some_fault(cluster: TestCluster, load: Load, chance: random.Random, stack: ExitStack) -> str:
    """Begins a fault, which ends when the stack is closed; returns its name."""
    victim = chance.choice(cluster.ids)
    match kind := chance.choice(["kill", "wipe", "pause", "isolate", "cut", "one way", "restart"]):
        case "kill" | "wipe":
            cluster.kill(victim)
            if kind == "wipe":
                cluster.wipe(victim)
            stack.callback(cluster.restart, victim)
        case "pause":
            cluster.pause(victim)
            stack.callback(cluster.resume, victim)
        case "isolate":
            cluster.isolate(victim)
            stack.enter_context(load.away_from(victim, cluster))
            stack.callback(cluster.heal)
        case "restart":
            cluster.restart(victim)
        case _:
            stack.enter_context(link_cut(cluster, load, one_way=kind == "one way"))
    return f"random: {kind}"


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_five_brokers_and_faults_at_random(record_property: Measuring):
    chance = random.Random(14)
    with (
        odradek.cluster(brokers=5, config=SETTINGS, quick=False) as cluster,
        loaded(cluster, "random", record_property) as load,
    ):
        for _ in range(rounds(short=2, long=60)):
            with ExitStack() as stack:
                fault = some_fault(cluster, load, chance, stack)
                load.served_again(fault, BEGIN)
            load.served_again(fault, END)
            cluster.await_in_sync()
