"""Java's clients and librdkafka's at once on three brokers, of which one after the other fails in another way.

What they did and saw is a history without anomalies, and every one of them is served again after each fault.
`tests/gateway/testing/test_cluster_faults.py` has more faults, and librdkafka alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path

import pytest

import odradek
from compat_tests.comparison import is_missing
from compat_tests.history.load import Load
from compat_tests.java_clients import JavaVm
from odradek.gateway.testing.cluster import TestCluster

TOPIC = "faults"
PARTITIONS = 3
SETTINGS = {
    "broker.session.timeout.ms": 4000,
    "broker.heartbeat.interval.ms": 500,
    "replica.lag.time.max.ms": 5000,
    "offsets.topic.num.partitions": 5,
    "transaction.state.log.num.partitions": 5,
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[TestCluster]:
    with odradek.cluster(brokers=3, config=SETTINGS, directory=tmp_path) as running:
        running.create_topic(TOPIC, PARTITIONS, 3, {"min.insync.replicas": 2})
        yield running


def begin(fault: str, victim: int, cluster: TestCluster) -> None:
    match fault:
        case "kill":
            cluster.kill(victim)
        case "wipe":
            cluster.kill(victim)
            cluster.wipe(victim)
        case "pause":
            cluster.pause(victim)
        case _:
            cluster.isolate(victim)


def end(fault: str, victim: int, cluster: TestCluster) -> None:
    match fault:
        case "kill" | "wipe":
            cluster.restart(victim)
        case "pause":
            cluster.resume(victim)
        case _:
            cluster.heal()
    cluster.await_in_sync()


@pytest.mark.timeout(900)
def test_no_anomalies_while_brokers_fail(cluster: TestCluster) -> None:
    with ExitStack() as closing:
        java = None
        if not is_missing("Java"):
            java = JavaVm()
            closing.callback(java.close)
        load = closing.enter_context(Load(cluster.bootstrap, TOPIC, PARTITIONS, java))
        for fault in ("kill", "pause", "isolate", "wipe"):
            leader = cluster.leader(TOPIC, 0)
            begin(fault, leader, cluster)
            with load.away_from(leader, cluster) if fault == "isolate" else nullcontext():
                load.served_again()
            end(fault, leader, cluster)
            load.served_again()
        controller = cluster.controller()
        cluster.kill(controller)
        load.served_again()
        cluster.restart(controller)
        assert load.judged() == []
