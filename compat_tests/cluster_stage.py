"""Scenarios of several brokers: the same requests to three nodes of Kafka and of Odradek must get equal answers.

A scenario is a generator over a `ClusterStage` that yields labelled observations. It chooses the node of each request
and creates its own topics. Where it yields `DOWN`, the node `stage.away` is shut down cleanly, and where it yields
`UP`, started again: once for all scenarios that run together.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

from compat_tests.clusters import Nodes
from compat_tests.comparison import differences, plain
from compat_tests.every_version import Wire, comparable
from compat_tests.processes import wait_for
from odradek.wire.api_keys import ApiKey
from odradek.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from odradek.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.records.builder import SimpleRecord, build_batch
from odradek.wire.schema.schema import Message

Assignment = Sequence[Sequence[int]]
"""The replicas of partition 0, 1, …"""


class ClusterStage:
    """One side of a scenario: its nodes, a connection to each, and names that are the same on both sides."""

    def __init__(self, nodes: Nodes, name: str, away: int) -> None:
        self.nodes, self.name = nodes, name
        self.away = away
        """The node that is shut down at `DOWN`.

        It is not the active controller, since Kafka's next controller would fence it only after a delay.
        """
        self._wires: dict[int, Wire] = {}

    def close(self) -> None:
        for wire in self._wires.values():
            wire.socket.close()

    def call(self, node: int, key: ApiKey, version: int, request: Message) -> Any:
        """Sends to one node over a connection that is kept.

        Raises ConnectionResetError if the node closes it instead.
        """
        if node not in self._wires:
            self._wires[node] = Wire(self.nodes[node].bootstrap)
        try:
            return self._wires[node].call(key, version, request)
        except OSError:
            self._wires.pop(node).socket.close()
            raise

    def forget(self, node: int) -> None:
        """Closes the connection to a node that has ended."""
        if node in self._wires:
            self._wires.pop(node).socket.close()

    def create(
        self, assignment: Assignment | None = None, suffix: str = "", configs: Mapping[str, str] = {}, **counts: int
    ) -> str:
        """Creates a topic by assignment or by numbers of partitions and replicas; returns when all nodes have it."""
        name = f"{self.name}{suffix}"
        [created] = self.created(self.topic(name, assignment, configs, **counts), node=1).topics
        assert created.error_code == 0, created
        count = len(assignment) if assignment is not None else created.num_partitions
        for node in self.running:
            wait_for(lambda node=node: len(self.partitions(name, node)) == count, f"{name} on node {node}")
        return name

    @staticmethod
    def topic(
        name: str, assignment: Assignment | None = None, configs: Mapping[str, str] = {}, **counts: int
    ) -> CreatableTopic:
        """A topic for CreateTopics."""
        placed = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=tuple(replicas))
            for index, replicas in enumerate(assignment or ())
        ]
        texts = [CreatableTopicConfig(name=key, value=value) for key, value in configs.items()]
        return CreatableTopic(
            name=name,
            num_partitions=counts.get("num_partitions", -1),
            replication_factor=counts.get("replication_factor", -1),
            assignments=tuple(placed),
            configs=tuple(texts),
        )

    def created(self, *topics: CreatableTopic, node: int = 1, version: int = 7, dry: bool = False) -> Any:
        """The answer of CreateTopics."""
        return self.call(node, ApiKey.CREATE_TOPICS, version, CreateTopicsRequest(topics=topics, validate_only=dry))

    @property
    def running(self) -> list[int]:
        """The running nodes."""
        return [node.number for node in self.nodes.nodes.values() if node.daemon is not None]

    def described(self, topic: str, node: int = 1) -> Any:
        """The answer of DescribeTopicPartitions about a topic."""
        request = DescribeTopicPartitionsRequest(topics=(TopicRequest(name=topic),))
        return self.call(node, ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request).topics[0]

    def partitions(self, topic: str, node: int = 1) -> tuple[Any, ...]:
        """A topic's partitions in the metadata of a node."""
        return self.described(topic, node).partitions

    def await_partition(self, topic: str, index: int, condition: Callable[[Any], bool], what: str) -> None:
        """Returns when the metadata of every running node meets the condition."""
        for node in self.running:
            wait_for(
                lambda node=node: any(
                    part.partition_index == index and condition(part) for part in self.partitions(topic, node)
                ),
                f"{what} of {topic}-{index} at node {node} of {self.nodes.name}",
            )

    def await_isr(self, topic: str, index: int, *isr: int) -> None:
        """Returns when every running node has these in-sync replicas."""
        self.await_partition(topic, index, lambda part: set(part.isr_nodes) == set(isr), f"ISR {isr}")

    def await_leader(self, topic: str, index: int, leader: int) -> None:
        """Returns when every running node has this leader."""
        self.await_partition(topic, index, lambda part: part.leader_id == leader, f"leader {leader}")

    def topic_id(self, topic: str) -> UUID:
        """The id of a topic."""
        return self.described(topic).topic_id

    def produced(self, node: int, topic: str, index: int = 0, version: int = 12, acks: int = -1, count: int = 3) -> Any:
        """The answer of one node to Produce."""
        batch = build_batch([SimpleRecord(b"k", b"v%d" % n, 1_700_000_000_000 + n) for n in range(count)])
        parts = (PartitionProduceData(index=index, records=memoryview(batch)),)
        topic_id = self.topic_id(topic) if version >= 13 else UUID(int=0)
        data = (TopicProduceData(name=topic, topic_id=topic_id, partition_data=parts),)
        return self.call(node, ApiKey.PRODUCE, version, ProduceRequest(acks=acks, timeout_ms=9000, topic_data=data))

    def write(self, node: int, topic: str, index: int = 0) -> None:
        """Produces through the leader; returns once it accepts the records."""

        def is_taken() -> bool:
            return not self.produced(node, topic, index).responses[0].partition_responses[0].error_code

        wait_for(is_taken, f"node {node} of {self.nodes.name} to lead {topic}-{index}")

    def active_controller(self) -> int:
        """The node whose controller leads the quorum."""
        return self.quorum(self.running[0]).topics[0].partitions[0].leader_id

    def quorum(self, node: int) -> Any:
        """The answer of DescribeQuorum."""
        parts = (DescribeQuorumRequestPartitionData(partition_index=0),)
        asked = DescribeQuorumRequestTopicData(topic_name="__cluster_metadata", partitions=parts)
        return self.call(node, ApiKey.DESCRIBE_QUORUM, 2, DescribeQuorumRequest(topics=(asked,)))


DOWN, UP = "down", "up"
Observed = tuple[str, Any] | str
Scenario = Callable[[ClusterStage], Iterator[Observed]]


class ScenarioRun:
    """One scenario on one side, which runs from one halt to the next."""

    def __init__(self, nodes: Nodes, name: str, scenario: Scenario, away: int) -> None:
        self.name = scenario.__name__
        self.stage = ClusterStage(nodes, f"{self.name.replace('_', '-')}-{name}", away)
        self._observations = scenario(self.stage)
        self.found: dict[str, Any] = {}

    def until(self, halt: str | None) -> None:
        """Runs to a halt, None for the end."""
        nodes = self.stage.nodes
        try:
            for each in self._observations:
                if isinstance(each, str):
                    assert each == halt, f"{self.name} halts for {each}, not for {halt}"
                    return
                label, value = each
                assert label not in self.found, f"{label} is yielded twice"
                self.found[label] = _plain(value)
        except Exception as error:
            error.add_note(f"on {nodes.name} in {self.name}, after {list(self.found)}\n{nodes.log_tail()}")
            raise
        assert halt is None, f"{self.name} ends before {halt}"


def _plain(value: Any) -> Any:
    """The compared form: messages are reduced to whether there is one (docs/differences.md)."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    return plain(_without_words(comparable(value)))


def _without_words(value: Any, name: str = "") -> Any:
    if name == "error_message":
        return bool(value)
    if isinstance(value, dict):
        return {key: _without_words(inner, key) for key, inner in value.items()}
    return [_without_words(inner) for inner in value] if isinstance(value, list) else value


def observed(nodes: Nodes, name: str, scenarios: Sequence[Scenario], halts: Sequence[str]) -> dict[str, Any]:
    """The observations of scenarios on one side, by the scenario's name and the label."""
    controller = ClusterStage(nodes, name, 0).active_controller()
    away = next(number for number in nodes.nodes if number != controller)
    runs = [ScenarioRun(nodes, name, scenario, away) for scenario in scenarios]
    try:
        for halt in (*halts, None):
            for run in runs:
                run.until(halt)
                if halt == DOWN:
                    run.stage.forget(away)
            if halt == DOWN:
                nodes.shut_down(away)
            if halt == UP:
                nodes.start(away)
    finally:
        for run in runs:
            run.stage.close()
        if nodes[away].daemon is None:
            nodes.start(away)
    return {run.name: run.found for run in runs}


def compare(
    kafka: Nodes, odradek: Nodes, *scenarios: Scenario, halts: Sequence[str] = (), known: Sequence[str] = ()
) -> None:
    """Runs scenarios on both sides in parallel; fails with the differences, except at paths that match `known`."""
    name = secrets.token_hex(3)
    with ThreadPoolExecutor(2, thread_name_prefix="side") as pool:
        sides = [pool.submit(observed, nodes, name, scenarios, halts) for nodes in (kafka, odradek)]
    kafkas, ours = (side.result() for side in sides)
    found = dict(differences(kafkas, ours))
    unexplained = {path: pair for path, pair in found.items() if not any(re.fullmatch(each, path) for each in known)}
    assert unexplained == {}, _lines(unexplained)
    stale = [pattern for pattern in known if not any(re.fullmatch(pattern, path) for path in found)]
    assert stale == [], "known differences that are no longer seen"


def _lines(unexplained: Mapping[str, tuple[Any, Any]]) -> str:
    lines = [f"{path}: {kafkas!r} | {ours!r}" for path, (kafkas, ours) in unexplained.items()]
    return "\n".join(["each path with Kafka's | ours", *lines])
