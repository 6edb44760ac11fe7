"""Kafka's own tools, unmodified, with three nodes of Kafka and of Odradek: their output must be the same.

Ids, ports, times and growing numbers are masked. Each tool is a separate JVM, so the two sides run in parallel.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from compat_tests.cluster_moves import PREFERRED, elected, reassigned, under_way
from compat_tests.cluster_stage import ClusterStage, Observed, Scenario, compare
from compat_tests.clusters import Nodes
from compat_tests.java_tools import ToolResult, run_tool, run_tool_as
from compat_tests.processes import wait_for

pytestmark = pytest.mark.timeout(400)
TIMEOUT_S = 180
MASKS = (
    (r"TopicId: \S+", "TopicId: …"),
    (r"127\.0\.0\.1:\d+|127\.0\.0\.1 +\d+", "host:port"),
    (r"Cluster ID: \S+", "Cluster ID: …"),
    (r"cluster-?\s?[iI]d:?\s+\S+", "cluster id …"),
    (r"\b20\d\d-\d\d-\d\d[ T][\d:.,]+Z?", "time"),
)


def shown(stage: ClusterStage, result: ToolResult) -> dict[str, Any]:
    """The exit code of a tool and its output: the names of errors, otherwise the lines."""
    text = result.stdout.replace(stage.name, "NAME").replace(str(stage.nodes.home), "HOME")
    for pattern, mask in MASKS:
        text = re.sub(pattern, mask, text)
    errors = sorted(set(re.findall(r"\b\w+Exception\b", result.stdout + result.stderr)))
    if errors:
        return {"code": result.code, "errors": errors}
    return {"code": result.code, "lines": [re.sub(r"\s+", " ", line).strip() for line in text.splitlines() if line]}


def tool(stage: ClusterStage, name: str, *arguments: str) -> dict[str, Any]:
    """Runs a tool with all brokers."""
    return shown(stage, run_tool(name, stage.nodes.bootstrap, *arguments, timeout_s=TIMEOUT_S))


def tools(stage: ClusterStage, **commands: tuple[str, ...]) -> Iterator[Observed]:
    """Runs several tools one after the other; yields each result under its label."""
    for label, (name, *arguments) in commands.items():
        yield label.replace("_", " "), tool(stage, name, *arguments)


def topics(stage: ClusterStage) -> Iterator[Observed]:
    """kafka-topics: creation by number and by assignment, and the lists of partitions with problems."""
    given, counted = f"{stage.name}-given", f"{stage.name}-counted"
    create = ("kafka-topics", "--create", "--topic")
    yield from tools(
        stage,
        create_by_assignment=(*create, given, "--replica-assignment", "3:1:2,1:2:3"),
        create_by_number=(*create, counted, "--partitions", "3", "--replication-factor", "3"),
        too_many_replicas=(*create, f"{stage.name}-four", "--partitions", "1", "--replication-factor", "4"),
    )
    for index in range(2):
        stage.await_isr(given, index, 1, 2, 3)
    describe = ("kafka-topics", "--describe", "--topic", given)
    yield from tools(
        stage,
        described=describe,
        under_replicated=(*describe, "--under-replicated-partitions"),
        at_min_isr=(*describe, "--at-min-isr-partitions"),
    )


def reassignments(stage: ClusterStage) -> Iterator[Observed]:
    """kafka-reassign-partitions: a proposal, its execution with a throttle, its verification, cancelling nothing."""
    topic = stage.create([[1, 2], [2, 3]])
    stage.write(1, topic)
    folder = stage.nodes.home
    listed = _file(folder, f"{topic}-topics.json", {"version": 1, "topics": [{"topic": topic}]})
    moves = [{"topic": topic, "partition": 0, "replicas": [2, 3]}, {"topic": topic, "partition": 1, "replicas": [3, 1]}]
    plan = _file(folder, f"{topic}-plan.json", {"version": 1, "partitions": moves})
    generated = tool(
        stage, "kafka-reassign-partitions", "--topics-to-move-json-file", listed, "--broker-list", "1,2,3", "--generate"
    )
    current, proposed = (json.loads(line) for line in generated["lines"] if line.startswith("{"))
    yield "current", current
    yield "proposed", [(part["topic"], part["partition"], len(part["replicas"])) for part in proposed["partitions"]]
    reassign = ("kafka-reassign-partitions", "--reassignment-json-file", plan)
    yield "execute", tool(stage, *reassign, "--execute", "--throttle", "100000000")
    wait_for(lambda: not under_way(stage, topic, 0, 1).topics, "the end of the reassignment")
    for index, replicas in enumerate(([2, 3], [3, 1])):
        stage.await_isr(topic, index, *replicas)
    yield from tools(
        stage,
        verify=(*reassign, "--verify"),
        listed=("kafka-reassign-partitions", "--list"),
        cancel=(*reassign, "--cancel"),
        throttles_of_the_topic=("kafka-configs", "--describe", "--entity-type", "topics", "--entity-name", topic),
    )


def _file(folder: Path, name: str, content: Any) -> str:
    path = folder / name
    path.write_text(json.dumps(content))
    return str(path)


def elections(stage: ClusterStage) -> Iterator[Observed]:
    """kafka-leader-election: a leader that is not the preferred one, one that is, and an unknown partition."""
    topic = stage.create([[1, 2], [2, 1]])
    stage.write(1, topic)
    reassigned(stage, {(topic, 0): [2, 1]})
    stage.await_partition(topic, 0, lambda part: part.replica_nodes == (2, 1), "the other order")
    partitions = {"partitions": [{"topic": topic, "partition": index} for index in (0, 1)]}
    file = _file(stage.nodes.home, f"{topic}-elect.json", partitions)
    elect = ("kafka-leader-election", "--election-type", "preferred")
    yield from tools(
        stage,
        preferred=(*elect, "--path-to-json-file", file),
        missing=(*elect, "--topic", topic, "--partition", "7"),
        unclean=("kafka-leader-election", "--election-type", "unclean", "--topic", topic, "--partition", "0"),
    )
    stage.await_leader(topic, 0, 2)
    assert elected(stage, PREFERRED, (topic, 0))["-0"][0] == 84


def quorum(stage: ClusterStage) -> Iterator[Observed]:
    """kafka-metadata-quorum with brokers and with controllers."""
    controllers = ",".join(node.controller for node in stage.nodes.nodes.values())
    asked = ("kafka-metadata-quorum", "--bootstrap-controller", controllers)
    status = tool(stage, "kafka-metadata-quorum", "describe", "--status")
    yield "status", _status(status)
    by_controllers = shown(stage, run_tool_as(*asked, "describe", "--status", timeout_s=TIMEOUT_S))
    yield "status by controllers", _status(by_controllers)
    replication = tool(stage, "kafka-metadata-quorum", "describe", "--replication")
    header, *rows = replication["lines"]
    cells = [row.split() for row in rows]
    yield (
        "replication",
        (replication["code"], header, sorted(row[0] for row in cells), sorted(row[-1] for row in cells)),
    )


def _status(result: dict[str, Any]) -> Any:
    """The names of all lines, and values that do not grow. Kafka's static voters have no directory ids."""
    lines = [line.partition(":") for line in result["lines"]]
    kept = {name: re.sub(r'"directoryId": "[^"]*", ', "", value) for name, _, value in lines}
    same = {name: value for name, value in kept.items() if name in {"CurrentObservers", "CurrentVoters"}}
    return {"code": result["code"], "names": list(kept), **same}


def cluster(stage: ClusterStage) -> Iterator[Observed]:
    """kafka-cluster, kafka-features and kafka-log-dirs."""
    topic = stage.create([[1, 2], [2, 3]])
    stage.write(1, topic)
    controllers = ",".join(node.controller for node in stage.nodes.nodes.values())
    brokers = ("--bootstrap-server", stage.nodes.bootstrap)
    commands: dict[str, tuple[str, ...]] = {
        "id": ("cluster-id", *brokers),
        "unregister": ("unregister", *brokers, "--id", "9"),
        "endpoints": ("list-endpoints", *brokers, "--include-fenced-brokers"),
        "endpoints of controllers": ("list-endpoints", "--bootstrap-controller", controllers),
    }
    for label, arguments in commands.items():
        yield label, shown(stage, run_tool_as("kafka-cluster", *arguments, timeout_s=TIMEOUT_S))
    features = tool(stage, "kafka-features", "describe")
    yield "features", [line.split()[:2] for line in features["lines"] if "metadata.version" in line]
    dirs = run_tool("kafka-log-dirs", stage.nodes.bootstrap, "--describe", "--topic-list", topic, timeout_s=TIMEOUT_S)
    [listing] = [json.loads(line) for line in dirs.lines if line.startswith("{")]
    yield (
        "log dirs",
        {
            broker["broker"]: sorted(
                (part["partition"].replace(topic, "NAME"), part["offsetLag"], part["isFuture"])
                for each in broker["logDirs"]
                for part in each["partitions"]
            )
            for broker in listing["brokers"]
        },
    )


SCENARIOS: list[Scenario] = [topics, reassignments, elections, quorum, cluster]


def test_the_output_is_kafkas(kafka_nodes: Nodes, odradek_nodes: Nodes) -> None:
    """All scenarios in parallel: most of a tool's time is its start."""
    with ThreadPoolExecutor(2, thread_name_prefix="scenario") as pool:
        for done in [pool.submit(compare, kafka_nodes, odradek_nodes, scenario) for scenario in SCENARIOS]:
            done.result()
