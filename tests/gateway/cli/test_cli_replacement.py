"""The procedures of docs/cluster.md for nodes that are lost for good, followed command by command with real nodes."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cluster_commands import run

import odradek
from odradek.gateway.testing.cluster import TestCluster

DEADLINE_S = 60
CONFIG = {"broker.session.timeout.ms": 3000, "broker.heartbeat.interval.ms": 500}
RECORDS = [str(number) for number in range(200)]


def described(cluster: TestCluster) -> dict:
    return json.loads(run(cluster, "cluster", "describe", "--json"))


def await_state(cluster: TestCluster, holds: Callable[[dict], bool]) -> dict:
    deadline = time.monotonic() + DEADLINE_S
    while not holds(state := described(cluster)):
        assert time.monotonic() < deadline, state
        time.sleep(0.3)
    return state


def is_fenced(node: int) -> Callable[[dict], bool]:
    return lambda state: any(each["broker"] == node and not each["serves"] for each in state["brokers"])


def consumed(cluster: TestCluster, topic: str) -> list[str]:
    return sorted(run(cluster, "consume", topic, "--from", "earliest").split(), key=int)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[TestCluster]:
    """Three voters, and a fourth node that is only a broker."""
    with odradek.cluster(brokers=4, config=CONFIG, directory=tmp_path, links=False) as cluster:
        run(cluster, "topics", "create", "orders", "-p", "4", "-r", "3")
        run(cluster, "produce", "orders", stdin="\n".join(RECORDS))
        yield cluster


@pytest.mark.timeout(240)
def test_a_dead_broker_is_drained_and_removed(nodes: TestCluster):
    """A partition without another replica cannot be copied: its topic is deleted, or waits for the broker."""
    run(nodes, "topics", "create", "alone", "-p", "4", "-r", "1")
    run(nodes, "cluster", "reassign", "alone", "--brokers", "4")
    nodes.kill(4)
    await_state(nodes, is_fenced(4))
    left = run(nodes, "cluster", "drain", "4", "--throttle", "100000000", code=1)
    assert "throttle" not in left
    for broker in ("1", "2", "3"):
        assert "throttled" not in run(nodes, "configs", "describe", "broker", broker)
    assert "4 partitions without a leader cannot be copied and stay, as alone-0" in left
    state = described(nodes)
    assert (state["without_leader"], state["under_replicated"], state["reassignments"]) == (4, 4, [])
    assert "holds replicas of 4 partitions" in run(nodes, "cluster", "remove", "4", code=1)
    run(nodes, "cluster", "reassign", "alone", "--brokers", "1,2", "--no-wait")
    assert "4 reassignments under way" in run(nodes, "cluster", "describe")
    moving = described(nodes)["reassignments"]
    assert [(each["topic"], each["partition"], each["adding"], each["removing"]) for each in moving] == [
        ("alone", 0, [1], [4]),
        ("alone", 1, [2], [4]),
        ("alone", 2, [1], [4]),
        ("alone", 3, [2], [4]),
    ]
    run(nodes, "topics", "delete", "alone", "--yes")
    assert "node 4 removed as a broker" in run(nodes, "cluster", "remove", "4")
    state = described(nodes)
    assert [broker["broker"] for broker in state["brokers"]] == [1, 2, 3]
    assert (state["without_leader"], state["under_replicated"]) == (0, 0)
    assert consumed(nodes, "orders") == RECORDS


@pytest.mark.timeout(240)
def test_a_broker_comes_back_with_an_empty_disk_under_its_id(nodes: TestCluster):
    """Partitions without another replica are empty afterwards."""
    run(nodes, "topics", "create", "alone", "-p", "1", "-r", "1")
    run(nodes, "cluster", "reassign", "alone", "--brokers", "4")
    run(nodes, "produce", "alone", stdin="lost\n")
    nodes.kill(4)
    nodes.wipe(4)
    nodes.restart(4)
    nodes.await_in_sync()
    assert consumed(nodes, "orders") == RECORDS
    assert nodes.leader("alone", 0) == 4
    assert consumed(nodes, "alone") == []


@pytest.mark.timeout(240)
def test_a_voter_comes_back_with_an_empty_disk_as_another_voter(nodes: TestCluster, tmp_path: Path):
    """KIP-853: its old directory loses its vote, and the new one gets one, by `controller.quorum.auto.join.enable`."""
    run(nodes, "features", "upgrade", "kraft.version=1")
    before = voter_directories(nodes)
    nodes.kill(3)
    nodes.wipe(3)
    file = tmp_path / "node-3.properties"
    text = file.read_text()
    [line] = re.findall("controller.quorum.voters=.*\n", text)
    others = [each.split("@")[1] for each in line.strip().split("=")[1].split(",") if not each.startswith("3@")]
    joins = "controller.quorum.auto.join.enable=true\n"
    file.write_text(text.replace(line, f"controller.quorum.bootstrap.servers={','.join(others)}\n{joins}"))
    nodes.restart(3)
    deadline = time.monotonic() + DEADLINE_S
    while (after := voter_directories(nodes)).keys() != before.keys() or after[3] == before[3]:
        assert time.monotonic() < deadline, after
        time.sleep(0.3)
    assert (after[1], after[2]) == (before[1], before[2])
    nodes.await_in_sync()
    nodes.kill(1)
    assert nodes.controller(not_node=1) in (2, 3)
    await_state(nodes, is_fenced(1))
    assert consumed(nodes, "orders") == RECORDS


def voter_directories(cluster: TestCluster) -> dict[int, str]:
    """The directory of each voter."""
    asked = (
        "import json, sys, kafka; admin = kafka.KafkaAdminClient(bootstrap_servers=sys.argv[1])\n"
        "voters = admin.describe_metadata_quorum()['topics'][0]['partitions'][0]['current_voters']\n"
        "print(json.dumps([(each['replica_id'], str(each['replica_directory_id'])) for each in voters]))"
    )
    address = f"{cluster.host}:{cluster.node(1).plan.port}"
    done = subprocess.run([sys.executable, "-c", asked, address], stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout))
