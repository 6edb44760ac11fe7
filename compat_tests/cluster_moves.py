"""Moving replicas and leaders: the requests that the cluster's scenarios send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compat_tests.cluster_stage import ClusterStage
from odradek.wire.api_keys import ApiKey
from odradek.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)

PREFERRED, UNCLEAN = 0, 1


def reassigned(
    stage: ClusterStage,
    targets: Mapping[tuple[str, int], Sequence[int] | None],
    node: int = 1,
    *,
    factor_may_change: bool = True,
) -> Any:
    """The answer of AlterPartitionReassignments."""
    topics = [
        ReassignableTopic(
            name=topic,
            partitions=(
                ReassignablePartition(partition_index=index, replicas=None if replicas is None else tuple(replicas)),
            ),
        )
        for (topic, index), replicas in targets.items()
    ]
    request = AlterPartitionReassignmentsRequest(
        topics=tuple(topics), allow_replication_factor_change=factor_may_change
    )
    return stage.call(node, ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, request)


def under_way(stage: ClusterStage, topic: str | None, *indexes: int, node: int = 1) -> Any:
    """The answer of ListPartitionReassignments, about a topic or about all."""
    topics = None if topic is None else (ListPartitionReassignmentsTopics(name=topic, partition_indexes=indexes),)
    request = ListPartitionReassignmentsRequest(topics=topics)
    return stage.call(node, ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, request)


def moved(stage: ClusterStage, topic: str, index: int, *replicas: int) -> None:
    """Waits until a partition has exactly these replicas, all in sync, at every node."""
    stage.await_partition(
        topic,
        index,
        lambda part: part.replica_nodes == replicas and set(part.isr_nodes) == set(replicas),
        f"replicas {replicas}",
    )


def elected(stage: ClusterStage, kind: int, *partitions: tuple[str, int], version: int = 2, node: int = 1) -> Any:
    """The answer of ElectLeaders per partition; without `partitions`, about all."""
    by_topic: dict[str, list[int]] = {}
    for topic, index in partitions:
        by_topic.setdefault(topic, []).append(index)
    topics = [TopicPartitions(topic=topic, partitions=tuple(indexes)) for topic, indexes in by_topic.items()]
    request = ElectLeadersRequest(election_type=kind, topic_partitions=tuple(topics) if partitions else None)
    answer = stage.call(node, ApiKey.ELECT_LEADERS, version, request)
    found = {
        f"{result.topic.removeprefix(stage.name)}-{part.partition_id}": (part.error_code, bool(part.error_message))
        for result in answer.replica_election_results
        for part in result.partition_result
        if partitions or result.topic.startswith(stage.name)
    }
    return {"error": answer.error_code, **found}
