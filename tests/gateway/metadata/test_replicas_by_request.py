"""Administrative requests about replicas: answered at once when nothing changes, otherwise by the controller."""

import pytest
from gateway_client import RawClient
from test_active_controller import Combined, described, registration

from odradek.wire.errors import ErrorCode
from odradek.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from odradek.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from odradek.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from odradek.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic


@pytest.fixture
def client():
    """A client of a broker in a cluster whose second broker is only a registration."""
    with Combined() as broker, RawClient(broker.address) as client, RawClient(broker.controller) as nodes:
        epoch = nodes.call(registration(2, described(client).cluster_id), 4).broker_epoch
        beat = BrokerHeartbeatRequest(broker_id=2, broker_epoch=epoch, current_metadata_offset=epoch)
        assert not nodes.call(beat, 1).is_fenced
        yield client


def create(client, *replicas):
    assignments = tuple(
        CreatableReplicaAssignment(partition_index=index, broker_ids=ids) for index, ids in enumerate(replicas)
    )
    topic = CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=assignments)
    assert client.call(CreateTopicsRequest(topics=(topic,))).topics[0].error_code == 0


def reassign(client, *targets):
    parts = tuple(ReassignablePartition(partition_index=index, replicas=ids) for index, ids in enumerate(targets))
    request = AlterPartitionReassignmentsRequest(topics=(ReassignableTopic(name="t", partitions=parts),))
    return [each.error_code for each in client.call(request).responses[0].partitions]


def placed(client):
    """Leader and replicas of each partition."""
    (topic,) = client.call(MetadataRequest(topics=(MetadataRequestTopic(name="t"),))).topics
    partitions = sorted(topic.partitions, key=lambda each: each.partition_index)
    return [(each.leader_id, each.replica_nodes) for each in partitions]


def test_partitions_are_reassigned_and_taken_back(client):
    create(client, (1,), (1,))
    assert reassign(client, (1,), (2,)) == [0, 0]
    assert placed(client) == [(1, (1,)), (1, (2, 1))]
    (topic,) = client.call(ListPartitionReassignmentsRequest(topics=None)).topics
    assert [(each.partition_index, each.adding_replicas, each.removing_replicas) for each in topic.partitions] == [
        (1, (2,), (1,))
    ]
    assert reassign(client, None, None) == [ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, 0]
    assert placed(client) == [(1, (1,)), (1, (1,))]
    assert client.call(ListPartitionReassignmentsRequest(topics=None)).topics == ()


def test_a_preferred_leader_is_elected(client):
    create(client, (1, 2))
    assert reassign(client, (2, 1)) == [0]
    request = ElectLeadersRequest(topic_partitions=(TopicPartitions(topic="t", partitions=(0, 5)),))
    results = client.call(request).replica_election_results[0].partition_result
    assert [each.error_code for each in results] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert placed(client) == [(2, (2, 1))]
    results = client.call(request).replica_election_results[0].partition_result
    assert results[0].error_code == ErrorCode.ELECTION_NOT_NEEDED


def test_only_a_replica_of_this_broker_can_be_moved_to_a_directory(client):
    create(client, (1,), (2,))
    own = client.call(DescribeLogDirsRequest(topics=None)).results[0].log_dir
    moved = (AlterReplicaLogDirTopic(name="t", partitions=(0, 1, 2)),)
    [result] = client.call(AlterReplicaLogDirsRequest(dirs=(AlterReplicaLogDir(path=own, topics=moved),))).results
    assert [each.error_code for each in result.partitions] == [
        0,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
