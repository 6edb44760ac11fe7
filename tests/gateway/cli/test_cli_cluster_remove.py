"""`odradek cluster remove` of a broker, and of a voter that is also a broker, with real nodes."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

import odradek
from odradek.gateway.testing.cluster import TestCluster

DEADLINE_S = 60
BROKER, VOTER = 4, 3


@pytest.fixture(scope="module")
def nodes() -> Iterator[TestCluster]:
    """Three voters, and a fourth node that is only a broker."""
    config = {"broker.session.timeout.ms": 3000, "broker.heartbeat.interval.ms": 500}
    with odradek.cluster(brokers=4, config=config) as cluster:
        yield cluster


def run(cluster: TestCluster, *arguments: str, code: int = 0) -> str:
    """Runs a command in a separate process: kafka-python does not close its sockets to brokers that are down."""
    live = [f"{cluster.host}:{cluster.node(node).plan.port}" for node in cluster.ids if cluster.node(node).is_running]
    command = [sys.executable, "-m", "odradek", *arguments, "--bootstrap", ",".join(live)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == code, done.stdout
    return done.stdout


def described(cluster: TestCluster) -> dict:
    return json.loads(run(cluster, "cluster", "describe", "--json"))


def serving(cluster: TestCluster) -> list[int]:
    return [broker["broker"] for broker in described(cluster)["brokers"] if broker["serves"]]


def stop(cluster: TestCluster, node: int) -> None:
    """Kills the node and waits until the cluster has noticed."""
    cluster.kill(node)
    deadline = time.monotonic() + DEADLINE_S
    while node in serving(cluster):
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.mark.timeout(240)
def test_nodes_are_removed_once_they_hold_nothing_and_are_stopped(nodes: TestCluster):
    run(nodes, "topics", "create", "held", "-p", "8", "-r", "2")
    assert f"odradek: broker {BROKER} serves" in run(nodes, "cluster", "remove", str(BROKER), code=1)
    run(nodes, "cluster", "drain", str(BROKER))
    stop(nodes, BROKER)
    rows = [line.split() for line in run(nodes, "cluster", "describe").splitlines()]
    [row] = [row for row in rows if row[0] == str(BROKER)]
    assert "no" in row
    assert f"there is no broker {BROKER} that serves" in run(nodes, "cluster", "add", str(BROKER), code=1)
    assert f"node {BROKER} removed as a broker" in run(nodes, "cluster", "remove", str(BROKER))
    again = run(nodes, "cluster", "remove", str(BROKER), code=1)
    assert "BROKER_ID_NOT_REGISTERED" in again

    stop(nodes, VOTER)
    assert f"broker {VOTER} holds replicas of" in run(nodes, "cluster", "remove", str(VOTER), code=1)
    run(nodes, "cluster", "reassign", "held", "--brokers", "1,2")
    assert "controller.quorum.voters" in run(nodes, "cluster", "remove", str(VOTER), code=1)
    nodes.restart(VOTER)  # a newly elected leader may not have received its directory yet
    run(nodes, "features", "upgrade", "kraft.version=1")
    stop(nodes, VOTER)
    assert f"node {VOTER} removed as a voter and a broker" in run(nodes, "cluster", "remove", str(VOTER))
    state = described(nodes)
    assert state["voters"] == [1, 2]
    assert [broker["broker"] for broker in state["brokers"]] == [1, 2]
