"""A throttled copy takes as long as its rate requires, on the leader's side and on the follower's; others do not."""

from collections.abc import Sequence

import pytest
import trio
from test_three_nodes import NODES, TOPIC, Cluster, with_cluster

from odradek.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

TOPIC_TYPE, BROKER_TYPE = 2, 4
RATE = 1_000_000
RECORD_BYTES, RECORDS = 500_000, 60
LEADER, IN_SYNC, NEW = NODES


async def alter(cluster: Cluster, kind: int, names: Sequence[str], configs: dict[str, str]) -> None:
    wanted = tuple(AlterableConfig(name=key, config_operation=0, value=text) for key, text in configs.items())
    resources = tuple(AlterConfigsResource(resource_type=kind, resource_name=name, configs=wanted) for name in names)
    response = await cluster.clients[LEADER].call(IncrementalAlterConfigsRequest(resources=resources))
    assert isinstance(response, IncrementalAlterConfigsResponse)
    assert [each.error_code for each in response.responses] == [0] * len(names)


async def create(cluster: Cluster) -> None:
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=(LEADER, IN_SYNC))
    topic = CreatableTopic(name=TOPIC, num_partitions=-1, replication_factor=-1, assignments=(assignment,))
    response = await cluster.clients[LEADER].call(CreateTopicsRequest(topics=(topic,), timeout_ms=10_000), 20)
    assert isinstance(response, CreateTopicsResponse)
    assert response.topics[0].error_code == 0


async def copied_s(cluster: Cluster) -> float:
    """The virtual seconds that it takes to move the partition's second replica to the third broker."""
    wanted = ReassignablePartition(partition_index=0, replicas=(LEADER, NEW))
    topics = (ReassignableTopic(name=TOPIC, partitions=(wanted,)),)
    began = trio.current_time()
    response = await cluster.clients[LEADER].call(AlterPartitionReassignmentsRequest(topics=topics))
    assert isinstance(response, AlterPartitionReassignmentsResponse)
    assert response.error_code == response.responses[0].partitions[0].error_code == 0
    with trio.fail_after(300):
        while sorted(await isr(cluster)) != [LEADER, NEW]:  # noqa: ASYNC110 - only the broker knows
            await trio.sleep(0.1)
    return trio.current_time() - began


async def isr(cluster: Cluster) -> tuple[int, ...]:
    return (await cluster.metadata(LEADER)).topics[0].partitions[0].isr_nodes


def seconds_of(topic_configs: dict[str, str], broker_configs: dict[str, str]) -> float:
    took: list[float] = []

    async def play(cluster: Cluster) -> None:
        await create(cluster)
        await alter(cluster, BROKER_TYPE, [str(number) for number in NODES], broker_configs)
        await alter(cluster, TOPIC_TYPE, [TOPIC], topic_configs)
        for _ in range(RECORDS):
            assert await cluster.produce(LEADER, 0, bytes(RECORD_BYTES)) == 0
        took.append(await copied_s(cluster))

    with_cluster(0, play)
    return took[0]


RATES = {"leader.replication.throttled.rate": str(RATE), "follower.replication.throttled.rate": str(RATE)}


@pytest.mark.parametrize(
    "topic_configs",
    [
        {"leader.replication.throttled.replicas": f"0:{LEADER}"},
        {"follower.replication.throttled.replicas": f"0:{NEW}"},
        {"leader.replication.throttled.replicas": "*", "follower.replication.throttled.replicas": "*"},
    ],
    ids=["leader", "follower", "both"],
)
def test_a_throttled_copy_takes_as_long_as_its_rate_says(topic_configs) -> None:
    least_s = RECORDS * RECORD_BYTES / RATE
    assert 0.6 * least_s <= seconds_of(topic_configs, RATES) <= 2 * least_s


@pytest.mark.parametrize(
    ("topic_configs", "broker_configs"),
    [
        ({"leader.replication.throttled.replicas": f"0:{NEW}"}, RATES),
        ({"follower.replication.throttled.replicas": f"0:{IN_SYNC},1:{NEW}"}, RATES),
        ({"leader.replication.throttled.replicas": "*"}, {"leader.replication.throttled.rate": "1000000000000"}),
    ],
    ids=["another leader", "another follower", "a high rate"],
)
def test_what_no_throttle_names_is_copied_at_once(topic_configs, broker_configs) -> None:
    assert seconds_of(topic_configs, broker_configs) <= 5


def test_a_throttle_never_takes_a_replica_out_of_the_isr() -> None:
    async def play(cluster: Cluster) -> None:
        await create(cluster)
        both = {"leader.replication.throttled.replicas": "*", "follower.replication.throttled.replicas": "*"}
        await alter(cluster, TOPIC_TYPE, [TOPIC], both)
        await alter(cluster, BROKER_TYPE, [str(number) for number in NODES], dict.fromkeys(RATES, "1"))
        for _ in range(RECORDS):
            assert await cluster.produce(LEADER, 0, bytes(RECORD_BYTES)) == 0, "both replicas have it at once"
            assert sorted(await isr(cluster)) == [LEADER, IN_SYNC]

    with_cluster(1, play)
