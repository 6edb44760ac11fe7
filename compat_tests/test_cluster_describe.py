"""What brokers tell of each other and of replicas, from three nodes of Kafka and three of Odradek."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from compat_tests.cluster_stage import ClusterStage, Story, compare
from compat_tests.clusters import Nodes
from odradek.wire.api_keys import ApiKey
from odradek.wire.messages.describe_cluster import DescribeClusterRequest
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic


def brokers(stage: ClusterStage) -> Iterator[tuple[str, Any]]:
    """Every node names all brokers, with their racks and in order, whichever is asked."""
    for node in stage.running:
        for version in (1, 12, 13):
            asked = MetadataRequest(topics=(), allow_auto_topic_creation=version < 4)
            told = stage.call(node, ApiKey.METADATA, version, asked)
            yield f"metadata {version} of {node}", told.brokers
            assert told.controller_id in stage.running
        cluster = stage.call(node, ApiKey.DESCRIBE_CLUSTER, 2, DescribeClusterRequest())
        yield f"cluster of {node}", (cluster.error_code, sorted(cluster.brokers, key=lambda each: each.broker_id))


def placement(stage: ClusterStage) -> Iterator[tuple[str, Any]]:
    """How many partitions each broker leads and holds is Kafka's; which ones is chance."""
    for partitions, factor in ((1, 1), (2, 3), (3, 3), (7, 2), (9, 3), (-1, -1)):
        topic = stage.create(suffix=f"-{partitions}-{factor}", num_partitions=partitions, replication_factor=factor)
        told = stage.partitions(topic)
        led = Counter(part.leader_id for part in told)
        held = Counter(replica for part in told for replica in part.replica_nodes)
        assert all(part.replica_nodes[0] == part.leader_id for part in told)
        assert all(len(set(part.replica_nodes)) == len(part.replica_nodes) for part in told)
        yield topic, {"led": sorted(led.values()), "held": sorted(held.values())}


def replicas(stage: ClusterStage) -> Iterator[tuple[str, Any]]:
    """A topic of given replicas, as each version of Metadata and DescribeTopicPartitions tell of it."""
    topic = stage.create([[3, 1, 2], [1, 2, 3], [2, 3, 1]], configs={"min.insync.replicas": "1"})
    for index, isr in enumerate(([1, 2, 3],) * 3):
        stage.await_isr(topic, index, *isr)
    for node in stage.running:
        yield f"described by {node}", stage.described(topic, node)
        for version in (0, 5, 7, 13):
            topics = (MetadataRequestTopic(name=topic),)
            asked = MetadataRequest(topics=topics, allow_auto_topic_creation=version < 4)
            yield f"metadata {version} of {node}", stage.call(node, ApiKey.METADATA, version, asked).topics


STORIES: list[Story] = [brokers, placement, replicas]


@pytest.mark.parametrize("story", STORIES)
def test_the_answers_are_kafkas(kafka_nodes: Nodes, odradek_nodes: Nodes, story: Story) -> None:
    compare(kafka_nodes, odradek_nodes, story)
