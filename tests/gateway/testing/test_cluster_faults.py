"""Real brokers as processes, real clients, and faults; what the clients did and saw is judged.

Nothing that was acknowledged with acks=all is lost, nothing uncommitted is seen, nothing doubled, and every client is
served again after each fault, most of them while it lasts.
"""

import random
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

import odradek
from compat_tests.history.load import Load
from odradek.coordinator.partitioner import partition_for
from odradek.gateway.testing.cluster import TestCluster
from tests.long_form import rounds

pytestmark = pytest.mark.timeout(600)

PARTITIONS = 3
SETTINGS = {
    "broker.session.timeout.ms": 4000,
    "broker.heartbeat.interval.ms": 500,
    "replica.lag.time.max.ms": 5000,
    "offsets.topic.num.partitions": 5,
    "transaction.state.log.num.partitions": 5,
}
BEYOND_THE_SESSION_S = 6.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestCluster]:
    with odradek.cluster(brokers=3, config=SETTINGS, directory=tmp_path_factory.mktemp("cluster")) as running:
        yield running


@contextmanager
def loaded(cluster: TestCluster, topic: str) -> Iterator[Load]:
    """Clients at work on a new topic; in the end the cluster is whole, and what they did without fault."""
    cluster.create_topic(topic, PARTITIONS, 3, {"min.insync.replicas": 2})
    with Load(cluster.bootstrap, topic, PARTITIONS) as load:
        try:
            yield load
        finally:
            make_whole(cluster)
        load.served_again()
        assert load.judged() == []


def make_whole(cluster: TestCluster) -> None:
    cluster.heal()
    for broker in cluster.ids:
        cluster.resume(broker)
        if not cluster.node(broker).is_running:
            cluster.restart(broker)
    cluster.await_in_sync()  # one more fault is borne only then


def leader_of(cluster: TestCluster, topic: str) -> int:
    return cluster.leader(topic, 0)


def follower_of(cluster: TestCluster, topic: str) -> int:
    """A broker that neither leads the partition nor is the active controller, if there is one."""
    leader, controller = cluster.leader(topic, 0), cluster.controller()
    return next(each for each in sorted(cluster.ids, key=lambda each: each == controller) if each != leader)


def controller_of(cluster: TestCluster, topic: str) -> int:
    del topic
    return cluster.controller()


def group_coordinator_of(cluster: TestCluster, topic: str) -> int:
    return cluster.leader("__consumer_offsets", partition_for(f"{topic}-rd-classic", 5))


@contextmanager
def link_cut(cluster: TestCluster, load: Load, *, one_way: bool = False) -> Iterator[None]:
    """Two brokers do not reach each other, neither of which coordinates the transactions on the topic.

    A coordinator that is in touch with the controller keeps its place, and writes its markers to the leaders
    themselves: cut off from one of them it cannot end a transaction, in Kafka either. Of a pair with the controller the
    other one is cut off from the metadata.
    """
    coordinator = cluster.coordinator(f"{load.target.topic}-rd-txn", transactional=True)
    one, other, *_ = sorted(set(cluster.ids) - {coordinator})
    cut_off = other if one == cluster.controller() else one
    cluster.partition(one, other, one_way=one_way)
    with load.away_from(cut_off, cluster):
        yield
    cluster.heal()


ROLES: dict[str, Callable[[TestCluster, str], int]] = {
    "leader": leader_of,
    "follower": follower_of,
    "controller": controller_of,
    "group-coordinator": group_coordinator_of,
}


@pytest.mark.parametrize("role", ROLES)
def test_a_broker_is_killed_and_comes_back(cluster: TestCluster, role: str):
    with loaded(cluster, f"kill-{role}") as load:
        victim = ROLES[role](cluster, load.target.topic)
        cluster.kill(victim)
        load.served_again()
        cluster.restart(victim)


def test_a_broker_that_never_comes_back(cluster: TestCluster):
    cluster.create_topic("for-ever", PARTITIONS, 3, {"min.insync.replicas": 2})
    try:
        with Load(cluster.bootstrap, "for-ever", PARTITIONS) as load:
            cluster.kill(cluster.leader("for-ever", 0))
            load.served_again()
            assert load.judged() == []
    finally:
        make_whole(cluster)


def test_all_brokers_are_killed_in_turn_and_then_at_once(cluster: TestCluster):
    with loaded(cluster, "all-killed") as load:
        for broker in cluster.ids:
            cluster.kill(broker)
            cluster.restart(broker)
            cluster.await_in_sync()
        load.served_again()
        for broker in cluster.ids:
            cluster.kill(broker)
        for broker in cluster.ids:
            cluster.node(broker).start()
        for broker in cluster.ids:
            cluster.node(broker).await_ready()


def test_a_broker_hangs_for_longer_than_its_session(cluster: TestCluster):
    with loaded(cluster, "hangs") as load:
        victim = cluster.leader("hangs", 0)
        cluster.pause(victim)
        load.served_again()
        time.sleep(BEYOND_THE_SESSION_S)
        cluster.resume(victim)


@pytest.mark.parametrize("one_way", [False, True], ids=["both-ways", "one-way"])
def test_a_leader_is_cut_off_from_the_other_brokers(cluster: TestCluster, one_way: bool):
    """With `one_way` what it sends does not arrive, while it hears the others."""
    with loaded(cluster, f"cut-{one_way}") as load:
        victim = cluster.leader(load.target.topic, 0)
        for other in cluster.ids:
            if other != victim:
                cluster.partition(victim, other, one_way=one_way)
        with load.away_from(victim, cluster):
            load.served_again()
        cluster.heal()


def test_two_brokers_do_not_reach_each_other(cluster: TestCluster):
    with loaded(cluster, "pair") as load, link_cut(cluster, load):
        time.sleep(BEYOND_THE_SESSION_S)
        load.served_again()


def test_a_wiped_disk_rejoins(cluster: TestCluster):
    with loaded(cluster, "wiped-disk") as load:
        victim = cluster.leader("wiped-disk", 0)
        cluster.kill(victim)
        cluster.wipe(victim)
        load.served_again()
        cluster.restart(victim)


@contextmanager
def full_disk(cluster: TestCluster, broker: int) -> Iterator[None]:
    """No file of a broker may be written any more, as on a disk without space; this needs no rights and no mount."""
    pid = cluster.node(broker).pid
    _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, most))
    try:
        yield
    finally:
        if cluster.node(broker).is_running:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))


def test_a_disk_that_fills(cluster: TestCluster):
    """The broker ends, so that others lead; when there is space again it is started, and catches up."""
    with loaded(cluster, "full-disk") as load:
        victim = cluster.leader("full-disk", 0)
        with full_disk(cluster, victim):
            cluster.node(victim).join()
            load.served_again()


def test_a_rolling_restart(cluster: TestCluster):
    with loaded(cluster, "rolling") as load:
        for broker in cluster.ids:
            cluster.restart(broker)
            load.served_again(1)


def test_producers_that_die_in_the_middle_of_a_send(cluster: TestCluster):
    with loaded(cluster, "dying-producers") as load:
        victims = [load.victim("plain"), load.victim("transactional")]
        for victim in victims:
            victim.await_work()
            victim.kill()


def test_consumers_that_die(cluster: TestCluster):
    """A member of each group; its partitions go to the other one, from where it had committed."""
    with loaded(cluster, "dying-consumers") as load:
        victims = [load.victim("member", group=group) for group in load.members]
        for victim in victims:
            victim.await_work(2)
            victim.kill()


def some_fault(cluster: TestCluster, load: Load, chance: random.Random, stack: ExitStack) -> str:
    """Begin a fault, whose end is left to the stack; what it is."""
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
    return f"{kind} {victim}"


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_five_brokers_and_faults_at_random():
    chance, told = random.Random(14), list[str]()
    with odradek.cluster(brokers=5, config=SETTINGS) as cluster, loaded(cluster, "random") as load:
        for _ in range(rounds(short=2, long=60)):
            with ExitStack() as stack:
                told.append(some_fault(cluster, load, chance, stack))
                load.served_again(2)
            load.served_again(2)
            cluster.await_in_sync()
    assert told
