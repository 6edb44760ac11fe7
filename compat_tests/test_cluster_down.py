"""One of three nodes is shut down and started again: the answers of the others meanwhile, in Kafka and in Odradek."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from compat_tests.cluster_moves import PREFERRED, UNCLEAN, elected, reassigned, under_way
from compat_tests.cluster_stage import DOWN, UP, ClusterStage, Observed, compare
from compat_tests.clusters import Nodes
from compat_tests.processes import wait_for
from odradek.wire.api_keys import ApiKey
from odradek.wire.messages.describe_cluster import DescribeClusterRequest
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.wire.messages.unregister_broker import UnregisterBrokerRequest


class Cast:
    """The node that is shut down and the two that stay, named by role: the ids depend on which controller leads."""

    def __init__(self, stage: ClusterStage) -> None:
        self.away = stage.away
        self.first, self.second = (number for number in stage.nodes.nodes if number != stage.away)
        self._names = {self.away: "away", self.first: "first", self.second: "second", -1: "none"}

    def __call__(self, *numbers: int) -> list[str]:
        """The names of the roles."""
        return [self._names[number] for number in numbers]

    def described(self, part: Any) -> dict[str, Any]:
        """A partition of DescribeTopicPartitions; the epoch counts the leaders so far."""
        return {
            "error": part.error_code,
            "leader": self(part.leader_id),
            "epoch": part.leader_epoch,
            "replicas": self(*part.replica_nodes),
            "isr": sorted(self(*part.isr_nodes)),
            "elr": sorted(self(*(part.eligible_leader_replicas or ()))),
            "last elr": self(*(part.last_known_elr or ())),
            "offline": self(*part.offline_replicas),
        }


def the_cluster(stage: ClusterStage) -> Iterator[Observed]:
    """The brokers in DescribeCluster, with and without fenced ones, and a partition with a replica that is down."""
    cast = Cast(stage)
    topic = stage.create([[cast.away, cast.first, cast.second], [cast.first, cast.away, cast.second]])
    for index in range(2):
        stage.await_isr(topic, index, 1, 2, 3)
    yield DOWN
    stage.await_isr(topic, 0, cast.first, cast.second)
    stage.await_isr(topic, 1, cast.first, cast.second)
    for node in (cast.first, cast.second):
        for fenced in (False, True):
            asked = DescribeClusterRequest(include_fenced_brokers=fenced)
            answer = stage.call(node, ApiKey.DESCRIBE_CLUSTER, 2, asked)
            brokers = {cast(broker.broker_id)[0]: broker.is_fenced for broker in answer.brokers}
            yield f"brokers of {node != cast.first}, fenced {fenced}", brokers
        yield f"described by {node != cast.first}", [cast.described(part) for part in stage.partitions(topic, node)]
        for version in (4, 5, 13):
            topics = (MetadataRequestTopic(name=topic),)
            answer = stage.call(node, ApiKey.METADATA, version, MetadataRequest(topics=topics))
            yield (
                f"metadata {version} of {node != cast.first}",
                [
                    (part.error_code, cast(part.leader_id), sorted(cast(*part.isr_nodes)), cast(*part.offline_replicas))
                    for part in answer.topics[0].partitions
                ],
            )
    yield UP
    for index in range(2):
        stage.await_isr(topic, index, 1, 2, 3)
    yield "leaders stay when it is back", [cast.described(part) for part in stage.partitions(topic)]


def produce_without_enough_replicas(stage: ClusterStage) -> Iterator[Observed]:
    """`min.insync.replicas` is not reached: acks=all is refused, acks=1 is accepted and not visible to readers."""
    cast = Cast(stage)
    topic = stage.create([[cast.first, cast.away]])
    stage.await_isr(topic, 0, cast.first, cast.away)
    stage.write(cast.first, topic)
    yield DOWN
    stage.await_isr(topic, 0, cast.first)
    for version in (3, 9, 12):
        yield f"acks all, {version}", stage.produced(cast.first, topic, version=version)
    yield "acks 1", stage.produced(cast.first, topic, acks=1)
    yield "described", [cast.described(part) for part in stage.partitions(topic, cast.first)]
    yield "by the other", stage.produced(cast.second, topic, version=9)
    yield UP
    stage.await_isr(topic, 0, cast.first, cast.away)
    yield "acks all again", stage.produced(cast.first, topic)


def moves(stage: ClusterStage) -> Iterator[Observed]:
    """A reassignment to a node that is down stays in progress: listed, described, cancelled and replaced."""
    cast = Cast(stage)
    topic = stage.create([[cast.first]] * 2, configs={"min.insync.replicas": "1"})
    stage.write(cast.first, topic, 0)

    def described_reassignment(part: Any) -> dict[str, Any]:
        adding, removing = getattr(part, "adding_replicas", ()), getattr(part, "removing_replicas", ())
        replicas = getattr(part, "replicas", None) or part.replica_nodes
        return {"replicas": cast(*replicas), "adding": cast(*adding), "removing": cast(*removing)}

    yield DOWN
    targets = {(topic, 0): [cast.away], (topic, 1): [cast.away, cast.second]}
    yield "begun", reassigned(stage, targets, node=cast.first)
    for node in (cast.first, cast.second):
        wait_for(lambda node=node: bool(under_way(stage, topic, 0, 1, node=node).topics), "the reassignments")
        listed = under_way(stage, topic, 0, 1, node=node)
        parts = {str(part.partition_index): described_reassignment(part) for part in listed.topics[0].partitions}
        yield f"listed by {node != cast.first}", {"error": listed.error_code, **parts}
    yield "described", [described_reassignment(part) for part in stage.partitions(topic, cast.first)]
    yield "cancelled", reassigned(stage, {(topic, 0): None}, node=cast.second)
    stage.await_partition(topic, 0, lambda part: part.replica_nodes == (cast.first,), "the old replicas")
    yield "described after", [described_reassignment(part) for part in stage.partitions(topic, cast.first)]
    yield UP
    stage.await_partition(topic, 1, lambda part: part.replica_nodes == (cast.away, cast.second), "the target")
    wait_for(lambda: not under_way(stage, topic, 0, 1).topics, "the end of the reassignment")


def elections(stage: ClusterStage) -> Iterator[Observed]:
    """The preferred replica is down; a partition without a leader, elected uncleanly."""
    cast = Cast(stage)
    topic = stage.create([[cast.away, cast.first]], configs={"min.insync.replicas": "1"})
    alone = stage.create([[cast.away]], "-alone", configs={"min.insync.replicas": "1"})
    stage.await_isr(topic, 0, cast.away, cast.first)

    def described_partitions() -> list[Any]:
        return [cast.described(part) for name in (topic, alone) for part in stage.partitions(name, cast.first)]

    yield DOWN
    stage.await_leader(topic, 0, cast.first)
    stage.await_leader(alone, 0, -1)
    partitions = [(topic, 0), (alone, 0)]
    yield "described", described_partitions()
    yield "produced without a leader", stage.produced(cast.first, alone, version=9)
    yield "preferred", elected(stage, PREFERRED, *partitions, node=cast.first)
    yield "unclean", elected(stage, UNCLEAN, *partitions, node=cast.second)
    yield UP
    stage.await_leader(alone, 0, cast.away)
    stage.await_isr(topic, 0, cast.away, cast.first)
    yield "back", described_partitions()
    yield "preferred when it is back", elected(stage, PREFERRED, *partitions, node=cast.first)
    stage.await_leader(topic, 0, cast.away)
    yield "preferred again", elected(stage, PREFERRED, *partitions, node=cast.first)


def a_broker_to_forget(stage: ClusterStage) -> Iterator[Observed]:
    """UnregisterBroker of an unknown broker, and of one that is down, which registers again.

    It runs last: Kafka accepts a restarted broker that is still registered only when its session is over.
    """
    cast = Cast(stage)

    def forget(broker: int, node: int) -> Any:
        return stage.call(node, ApiKey.UNREGISTER_BROKER, 0, UnregisterBrokerRequest(broker_id=broker))

    yield "unknown", forget(9, cast.first)
    yield DOWN
    yield "down", forget(cast.away, cast.first)
    yield "again", forget(cast.away, cast.second)
    asked = DescribeClusterRequest(include_fenced_brokers=True)
    for node in (cast.first, cast.second):
        wait_for(lambda node=node: len(stage.call(node, ApiKey.DESCRIBE_CLUSTER, 2, asked).brokers) == 2, "two brokers")
    yield UP


def test_the_answers_are_kafkas(kafka_nodes: Nodes, odradek_nodes: Nodes) -> None:
    scenarios = (the_cluster, produce_without_enough_replicas, moves, elections, a_broker_to_forget)
    compare(kafka_nodes, odradek_nodes, *scenarios, halts=(DOWN, UP))
