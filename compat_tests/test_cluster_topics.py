"""Explicit placement and moving of replicas: assignments, reassignments and elections, as with three nodes of Kafka."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from compat_tests.cluster_moves import PREFERRED, UNCLEAN, elected, moved, reassigned, under_way
from compat_tests.cluster_stage import ClusterStage, Observed, Scenario, compare
from compat_tests.clusters import Nodes
from odradek.wire.api_keys import ApiKey
from odradek.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)

NO_SUCH_BROKER = 9


def assignments(stage: ClusterStage) -> Iterator[Observed]:
    """CreateTopics with explicit replicas, valid and invalid."""
    wanted: dict[str, Sequence[Sequence[int]]] = {
        "good": [[3, 1], [1, 2]],
        "unknown": [[1, NO_SUCH_BROKER]],
        "twice": [[1, 1]],
        "none": [[]],
        "uneven": [[1, 2, 3], [1, 2]],
        "negative": [[-1]],
    }
    topics = [stage.topic(f"{stage.name}-{what}", replicas) for what, replicas in wanted.items()]
    both = stage.topic(f"{stage.name}-both", [[1]], num_partitions=1)
    for dry in (True, False):
        answer = stage.created(*topics, both, node=2, dry=dry)
        yield f"created, dry {dry}", [named(topic) for topic in sorted(answer.topics, key=lambda each: each.name)]
    for what, first in (("gap", 1), ("begins late", 3)):
        topic = stage.topic(f"{stage.name}-{first}", [[1], [2]])
        placed = [topic.assignments[0], type(topic.assignments[1])(partition_index=first + 1, broker_ids=(2,))]
        odd = type(topic)(name=topic.name, num_partitions=-1, replication_factor=-1, assignments=tuple(placed))
        yield what, stage.created(odd).topics
    for factor in (4, 0, -2):
        topic = stage.topic(f"{stage.name}-{factor}", num_partitions=1, replication_factor=factor)
        yield f"factor {factor}", stage.created(topic).topics
    low = stage.topic(f"{stage.name}-low", [[1]], {"min.insync.replicas": "3"})
    yield "fewer than min.insync.replicas", stage.created(low, dry=True).topics[0].error_code


def named(topic: Any) -> Any:
    """A topic in CreateTopics' answer without its settings, which test_every_version compares."""
    return (topic.name, topic.error_code, topic.error_message, topic.num_partitions, topic.replication_factor)


def more_partitions(stage: ClusterStage) -> Iterator[Observed]:
    """CreatePartitions with explicit replicas."""
    topic = stage.create([[3, 1]])
    wanted: dict[str, tuple[int, Sequence[Sequence[int]] | None]] = {
        "too few": (3, [[1, 2]]),
        "too many": (2, [[1, 2], [2, 3]]),
        "unknown": (2, [[1, NO_SUCH_BROKER]]),
        "twice": (2, [[2, 2]]),
        "another factor": (2, [[2]]),
        "none": (2, [[]]),
        "good": (3, [[2, 3], [1, 2]]),
    }
    for what, (count, given) in wanted.items():
        lists = None if given is None else tuple([CreatePartitionsAssignment(broker_ids=tuple(ids)) for ids in given])
        asked = (CreatePartitionsTopic(name=topic, count=count, assignments=lists),)
        request = CreatePartitionsRequest(topics=asked, timeout_ms=9000)
        yield what, stage.call(2, ApiKey.CREATE_PARTITIONS, 3, request).results
    stage.await_isr(topic, 2, 1, 2)
    yield "described", stage.partitions(topic)


def reassignments(stage: ClusterStage) -> Iterator[Observed]:
    """Partitions move, grow, shrink and change their order; invalid targets get Kafka's error codes."""
    topic = stage.create([[1, 2], [2, 3], [3, 1]])
    stage.write(1, topic, 0)
    for what, target in {"unknown": [1, NO_SUCH_BROKER], "twice": [1, 1], "none": [], "negative": [-1]}.items():
        yield what, reassigned(stage, {(topic, 0): target})
    yield "cancel of nothing", reassigned(stage, {(topic, 0): None})
    yield "no such partition", reassigned(stage, {(topic, 7): [1]})
    yield "no such topic", reassigned(stage, {("not-there", 0): [1]})
    yield "another factor is refused", reassigned(stage, {(topic, 0): [1, 2, 3]}, factor_may_change=False)
    for step, (index, target) in enumerate(
        [(0, [2, 3]), (1, [3, 2]), (1, [3, 2]), (2, [3, 1, 2]), (2, [2, 3]), (0, [3, 2])]
    ):
        yield f"step {step}", reassigned(stage, {(topic, index): target}, node=1 + step % 3)
        moved(stage, topic, index, *target)
        yield f"after step {step}", without_leader(stage.partitions(topic)[index])
    yield "nothing under way", under_way(stage, topic, 0, 1, 2)
    yield "nothing at all", under_way(stage, None)
    yield "of a topic that is not there", under_way(stage, "not-there", 0)


def without_leader(part: Any) -> Any:
    """A partition's description without the leader and its epoch, which are random after a move."""
    assert part.leader_id in part.isr_nodes
    return {"replicas": list(part.replica_nodes), "isr": sorted(part.isr_nodes), "error": part.error_code}


def elections(stage: ClusterStage) -> Iterator[Observed]:
    """A leader that is not the preferred one, because the replicas were reordered, and elections of it."""
    topic = stage.create([[1, 2], [2, 1], [3, 1]])
    stage.write(1, topic, 0)
    reassigned(stage, {(topic, 0): [2, 1]})
    moved(stage, topic, 0, 2, 1)
    assert stage.partitions(topic)[0].leader_id == 1
    partitions = [(topic, 0), (topic, 1), (topic, 9), ("not-there", 0)]
    yield "unclean with a leader", elected(stage, UNCLEAN, *partitions, node=2)
    yield "preferred", elected(stage, PREFERRED, *partitions, node=3)
    stage.await_leader(topic, 0, 2)
    yield "described", stage.partitions(topic)
    yield "preferred again", elected(stage, PREFERRED, *partitions)
    yield "of all", elected(stage, PREFERRED)
    for version in (0, 1):
        yield f"version {version}", elected(stage, PREFERRED, *partitions, version=version)


SCENARIOS: list[Scenario] = [
    assignments,
    more_partitions,
    reassignments,
    elections,
]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_answers_are_kafkas(kafka_nodes: Nodes, odradek_nodes: Nodes, scenario: Scenario) -> None:
    compare(kafka_nodes, odradek_nodes, scenario)
