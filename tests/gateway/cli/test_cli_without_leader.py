"""Commands that send requests to partition leaders while one partition has no leader: its only broker was killed."""

import json
import time
from collections.abc import Iterator

import pytest
from cluster_commands import run

import odradek
from odradek.gateway.cli.clients.settings import CONFLUENT, KAFKA_PYTHON
from odradek.gateway.testing.cluster import TestCluster

DEADLINE_S = 60
TOPIC = "lost"


@pytest.fixture(scope="module")
def nodes() -> Iterator[TestCluster]:
    """Three brokers; the first of them alone has partition 1 of the topic, and is killed."""
    config = {"broker.session.timeout.ms": 3000, "broker.heartbeat.interval.ms": 500}
    with odradek.cluster(brokers=3, config=config) as cluster:
        run(cluster, "topics", "create", TOPIC, "-p", "3", "-r", "1")
        run(cluster, "cluster", "reassign", TOPIC, "--brokers", "2,1,3")
        for partition in ("0", "1", "2"):
            run(cluster, "produce", TOPIC, "--partition", partition, stdin="a\nb\n")
        run(cluster, "groups", "reset-offsets", "readers", "--topic", TOPIC, "--to-earliest", "--execute")
        cluster.kill(1)
        await_one_without_leader(cluster)
        yield cluster


def await_one_without_leader(cluster: TestCluster) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while json.loads(run(cluster, "cluster", "describe", "--json"))["without_leader"] != 1:
        assert time.monotonic() < deadline
        time.sleep(0.2)


def rows(text: str, first: str) -> list[list[str]]:
    """The fields of each line that begins with `first`."""
    return [line.split() for line in text.splitlines() if line.split()[:1] == [first]]


@pytest.mark.timeout(180)
def test_topics_describe_omits_values_that_only_a_leader_has(nodes: TestCluster):
    text = run(nodes, "topics", "describe", TOPIC)
    [[_, leader, _, _, start, end]] = rows(text, "1")
    assert (leader, start, end) == ("-", "-", "-")
    for led in ("0", "2"):
        [[_, _, _, _, start, end]] = rows(text, led)
        assert (start, end) == ("0", "2")
    [described] = json.loads(run(nodes, "topics", "describe", TOPIC, "--json"))
    [lost] = [part for part in described["partitions"] if part["partition"] == 1]
    assert (lost["leader"], lost["start_offset"], lost["end_offset"]) == (None, None, None)


@pytest.mark.timeout(180)
def test_a_groups_lag_is_that_of_the_other_partitions(nodes: TestCluster):
    text = run(nodes, "groups", "describe", "readers")
    assert "lag 4 in 2 of 3 partitions" in text
    assert [TOPIC, "1", "0", "-", "-", "-"] in rows(text, TOPIC)


@pytest.mark.timeout(180)
def test_offsets_are_reset_only_in_partitions_with_a_leader(nodes: TestCluster):
    reset = ("groups", "reset-offsets", "readers", "--to-latest", "--topic")
    assert f"{TOPIC}-1 has no leader, so that its offsets are not known" in run(nodes, *reset, TOPIC, code=1)
    assert [row[-1] for row in rows(run(nodes, *reset, f"{TOPIC}:0,2"), TOPIC)] == ["2", "2"]


@pytest.mark.timeout(180)
def test_producers_are_described_where_there_is_a_leader(nodes: TestCluster):
    text = run(nodes, "transactions", "describe-producers", TOPIC)
    assert f"{TOPIC}-1 has no leader and is left out" in text
    assert [row[1] for row in rows(text, TOPIC)] == ["0", "2"]
    assert f"{TOPIC}-1 has no leader and is left out" in run(nodes, "transactions", "find-hanging")
    abort = ("transactions", "abort", f"{TOPIC}:1", "--start-offset", "0")
    assert f"{TOPIC}-1 has no leader" in run(nodes, *abort, code=1)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("client", [KAFKA_PYTHON, CONFLUENT])
def test_consume_names_the_partition_that_it_cannot_read(nodes: TestCluster, client: str):
    consume = ("consume", TOPIC, "--client", client)
    assert f"{TOPIC}-1: LEADER_NOT_AVAILABLE" in run(nodes, *consume, code=1)
    assert run(nodes, *consume, "--partition", "0").split() == ["a", "b"]


@pytest.mark.timeout(180)
def test_configs_of_all_brokers_while_one_is_down(nodes: TestCluster):
    """Any broker answers for all of them, not only the first."""
    assert "odradek: broker 1 does not answer\n" in run(nodes, "configs", "describe", "broker", "1", code=3)
    run(nodes, "configs", "alter", "broker", "default", "--set", "log.retention.ms=86400000")
    assert "log.retention.ms=86400000" in run(nodes, "configs", "describe", "broker", "default")
