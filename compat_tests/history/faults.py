"""The faults of a cluster under load, and the moments from which clients must be served.

Each function begins one fault, checks that every client is served during it if the other brokers can serve alone, ends
it, and checks the same from its end on. It returns when all brokers run and all replicas are in sync.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

from compat_tests.history.load import Load
from odradek.coordinator.partitioner import partition_for
from odradek.gateway.testing.cluster import TestCluster

SETTINGS: Final = {
    "broker.session.timeout.ms": 4000,
    "broker.heartbeat.interval.ms": 500,
    "replica.lag.time.max.ms": 5000,
    "offsets.topic.num.partitions": 5,
    "transaction.state.log.num.partitions": 5,
}
"""The settings of every cluster with these faults."""
REPLICATED: Final = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
)
BEYOND_THE_SESSION_S: Final = 6.0
BEGIN, END, STOP = "begin", "end", "stop"
"""The moments from which times are measured: the beginning of a fault, its end, the request that stops a node."""

Fault = Callable[[TestCluster, Load], None]


def settings(replicas: int) -> dict[str, int]:
    """The settings of brokers with this replication factor for all topics."""
    return {**SETTINGS, **dict.fromkeys(REPLICATED, replicas)}


def leader_of(cluster: TestCluster, topic: str) -> int:
    """The broker that leads the first partition."""
    return cluster.leader(topic, 0)


def follower_of(cluster: TestCluster, topic: str) -> int:
    """A broker that does not lead the partition, and is not the active controller if possible."""
    leader, controller = cluster.leader(topic, 0), cluster.controller()
    return next(each for each in sorted(cluster.ids, key=lambda each: each == controller) if each != leader)


def controller_of(cluster: TestCluster, topic: str) -> int:
    """The active controller."""
    del topic
    return cluster.controller()


def group_coordinator_of(cluster: TestCluster, topic: str) -> int:
    """The broker that coordinates a classic group of the load."""
    return cluster.leader("__consumer_offsets", partition_for(f"{topic}-rd-classic", 5))


ROLES: Final[dict[str, Callable[[TestCluster, str], int]]] = {
    "leader": leader_of,
    "follower": follower_of,
    "controller": controller_of,
    "group coordinator": group_coordinator_of,
}


def make_whole(cluster: TestCluster) -> None:
    """Start or resume all brokers and restore their links. Returns when all replicas are in sync: only then can the
    cluster tolerate another fault."""
    cluster.heal()
    for broker in cluster.ids:
        cluster.resume(broker)
    start(cluster, [broker for broker in cluster.ids if not cluster.node(broker).is_running])
    cluster.await_in_sync()


def start(cluster: TestCluster, brokers: Sequence[int]) -> None:
    """Start brokers at the same time; returns when all serve."""
    for broker in brokers:
        cluster.node(broker).start()
    for broker in brokers:
        cluster.node(broker).await_ready()


def spread_leaders(cluster: TestCluster, load: Load) -> None:
    """Let each broker lead some partitions again; returns when all clients use these leaders.

    A Java client asks for metadata at a broker that it is connected or connecting to, and connects to leaders only. If
    all its leaders are on one broker, and that one hangs or is cut off, the client never asks another broker, as with
    Kafka. After a restart of all brokers one of them may lead everything.
    """
    cluster.elect_preferred()
    load.served_again("election of the preferred leaders", END)


def ends(fault: str, cluster: TestCluster, load: Load) -> None:
    """End any fault, and wait until every client has been served since."""
    with load.served_since(fault, END):
        make_whole(cluster)


def kill(cluster: TestCluster, load: Load, role: str = "leader") -> None:
    """`kill -9` of one broker."""
    fault = f"kill -9 of the {role}"
    cluster.kill(ROLES[role](cluster, load.target.topic))
    load.served_again(fault, BEGIN)
    ends(fault, cluster, load)


def kill_leader_and_controller(cluster: TestCluster, load: Load) -> None:
    """`kill -9` of two brokers at once, which a cluster of five tolerates."""
    fault = "kill -9 of leader and controller at once"
    controller = cluster.controller()
    led = [cluster.leader(load.target.topic, partition) for partition in range(load.target.partitions)]
    leader = next(each for each in led if each != controller)
    cluster.kill_at_once(leader, controller)
    load.served_again(fault, BEGIN)
    ends(fault, cluster, load)


def kill_all_in_turn(cluster: TestCluster, load: Load) -> None:
    """`kill -9` and an immediate restart of each broker, one after the other."""
    for broker in cluster.ids:
        with load.served_since("kill -9 of all in turn", BEGIN):
            cluster.kill(broker)
            make_whole(cluster)


def kill_all_at_once(cluster: TestCluster, load: Load) -> None:
    """`kill -9` of all brokers at once: no client is served until they are started again."""
    cluster.kill_at_once(*cluster.ids)
    ends("kill -9 of all at once", cluster, load)


def hang(cluster: TestCluster, load: Load) -> None:
    """SIGSTOP of a leader for longer than its session."""
    fault = "SIGSTOP beyond the session"
    spread_leaders(cluster, load)
    began = time.monotonic()
    cluster.pause(cluster.leader(load.target.topic, 0))
    load.served_again(fault, BEGIN)
    time.sleep(max(began + BEYOND_THE_SESSION_S - time.monotonic(), 0))
    ends(fault, cluster, load)


def cut_off(cluster: TestCluster, load: Load, *, one_way: bool = False) -> None:
    """Cut the links between a leader and the other brokers; if `one_way`, only what the leader sends is lost."""
    fault = f"links of the leader cut {'one way' if one_way else 'both ways'}"
    spread_leaders(cluster, load)
    victim = cluster.leader(load.target.topic, 0)
    for other in cluster.ids:
        if other != victim:
            cluster.partition(victim, other, one_way=one_way)
    with load.away_from(victim, cluster):
        load.served_again(fault, BEGIN)
    ends(fault, cluster, load)


@contextmanager
def link_cut(cluster: TestCluster, load: Load, *, one_way: bool = False) -> Iterator[None]:
    """Cut the link between two brokers, neither of which coordinates transactions on the topic.

    A coordinator that reaches the controller stays coordinator, and sends its markers to the leaders: while it cannot
    reach one of them, it cannot end a transaction, as in Kafka. If one of the two is the controller, the other gets no
    metadata.
    """
    spread_leaders(cluster, load)
    ids = [each.process for each in load.producers if each.is_transactional]
    coordinators = {cluster.coordinator(each, transactional=True) for each in ids}
    one, other, *_ = sorted(set(cluster.ids) - coordinators)
    cut_off = other if one == cluster.controller() else one
    cluster.partition(one, other, one_way=one_way)
    with load.away_from(cut_off, cluster):
        yield
    cluster.heal()


def pair_cut(cluster: TestCluster, load: Load) -> None:
    """Cut the link between two brokers. The cluster must have two that do not coordinate transactions."""
    with link_cut(cluster, load):
        load.served_again("link of two brokers cut", BEGIN)
        time.sleep(BEYOND_THE_SESSION_S)
    ends("link of two brokers cut", cluster, load)


def wiped_disk(cluster: TestCluster, load: Load) -> None:
    """Kill a leader, delete its data, and start it again."""
    victim = cluster.leader(load.target.topic, 0)
    cluster.kill(victim)
    cluster.wipe(victim)
    load.served_again("wiped disk", BEGIN)
    ends("wiped disk", cluster, load)


@contextmanager
def no_space(cluster: TestCluster, broker: int) -> Iterator[None]:
    """Make all file writes of a broker fail, as on a full disk; needs neither privileges nor a mount."""
    pid = cluster.node(broker).pid
    _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, most))
    try:
        yield
    finally:
        if cluster.node(broker).is_running:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))


def full_disk(cluster: TestCluster, load: Load) -> None:
    """Fill the disk of a leader: the broker ends, and others lead. It is started again with free space."""
    victim = cluster.leader(load.target.topic, 0)
    with no_space(cluster, victim), load.served_since("full disk", BEGIN):
        cluster.node(victim).join()
    ends("full disk", cluster, load)


def rolling_restart(cluster: TestCluster, load: Load) -> None:
    """Stop every broker cleanly and start it again, one after the other."""
    for broker in cluster.ids:
        with load.served_since("rolling restart", STOP):
            cluster.restart(broker)
            cluster.await_in_sync()


FAULTS: Final[dict[str, Fault]] = {
    **{f"kill-{role.replace(' ', '-')}": partial(kill, role=role) for role in ROLES},
    "kill-all-in-turn": kill_all_in_turn,
    "kill-all-at-once": kill_all_at_once,
    "hang": hang,
    "cut-both-ways": cut_off,
    "cut-one-way": partial(cut_off, one_way=True),
    "pair-cut": pair_cut,
    "wiped-disk": wiped_disk,
    "full-disk": full_disk,
    "rolling-restart": rolling_restart,
}
"""The faults that a cluster of three tolerates."""

OF_FIVE: Final[dict[str, Fault]] = {
    "kill-leader-and-controller": kill_leader_and_controller,
    **{name: FAULTS[name] for name in ("kill-all-at-once", "hang", "pair-cut", "full-disk", "rolling-restart")},
}
"""The faults with which a cluster of five is tested."""
OF_FIVE_REPLICAS: Final = ("kill-leader-and-controller",)
"""Those of them that need five replicas: with three, the killed brokers may have two of a partition's replicas."""
