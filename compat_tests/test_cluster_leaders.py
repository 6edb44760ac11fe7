"""Requests to the wrong broker, and to a follower on purpose: the answers of three nodes of Kafka, and of Odradek."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from compat_tests.cluster_stage import ClusterStage, Observed, Scenario, compare
from compat_tests.clusters import Nodes
from compat_tests.processes import wait_for
from odradek.wire.api_keys import ApiKey
from odradek.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.wire.messages.delete_groups import DeleteGroupsRequest
from odradek.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from odradek.wire.messages.describe_groups import DescribeGroupsRequest
from odradek.wire.messages.describe_transactions import DescribeTransactionsRequest
from odradek.wire.messages.end_txn import EndTxnRequest
from odradek.wire.messages.envelope import EnvelopeRequest
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.heartbeat import HeartbeatRequest
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.messages.list_groups import ListGroupsRequest
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.list_transactions import ListTransactionsRequest
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from odradek.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

GROUP, TRANSACTION = 0, 1
NO_ID = UUID(int=0)


def fetched(
    stage: ClusterStage, node: int, topic: str, version: int, index: int = 0, *, rack: str = "", **part: int
) -> Any:
    """The answer of one node to a consumer's Fetch."""
    wanted = FetchPartition(partition=index, **{"partition_max_bytes": 1 << 20, **part})
    topic_id = stage.topic_id(topic) if version >= 13 else NO_ID
    topics = (FetchTopic(topic=topic, topic_id=topic_id, partitions=(wanted,)),)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics, rack_id=rack)
    return stage.call(node, ApiKey.FETCH, version, request)


def listed(stage: ClusterStage, node: int, topic: str, version: int, timestamp: int = -1, epoch: int = -1) -> Any:
    """The answer of one node to ListOffsets."""
    part = ListOffsetsPartition(partition_index=0, timestamp=timestamp, current_leader_epoch=epoch)
    request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name=topic, partitions=(part,)),))
    return stage.call(node, ApiKey.LIST_OFFSETS, version, request)


def wrong_broker(stage: ClusterStage) -> Iterator[Observed]:
    """A follower (2) and a broker without a replica (3) get requests for the leader (1)."""
    topic = stage.create([[1, 2]])
    stage.write(1, topic)
    yield "no such partition", stage.produced(2, topic, index=7)
    for node in (2, 3):
        for version in (3, 9, 10, 12, 13):
            yield f"produce {version} to {node}", stage.produced(node, topic, version=version)
        for version in (4, 10, 15, 17):
            yield f"fetch {version} of {node}", fetched(stage, node, topic, version)
        for version in (1, 11):
            yield f"list offsets {version} of {node}", listed(stage, node, topic, version)
        epochs = OffsetForLeaderPartition(partition=0, leader_epoch=0)
        asked = OffsetForLeaderEpochRequest(topics=(OffsetForLeaderTopic(topic=topic, partitions=(epochs,)),))
        yield f"epoch of {node}", stage.call(node, ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, asked)
        records = DeleteRecordsPartition(partition_index=0, offset=1)
        deleted = DeleteRecordsRequest(topics=(DeleteRecordsTopic(name=topic, partitions=(records,)),), timeout_ms=9000)
        yield f"delete records at {node}", stage.call(node, ApiKey.DELETE_RECORDS, 2, deleted)


def epochs_of_leaders(stage: ClusterStage) -> Iterator[Observed]:
    """Requests with another leader epoch than the broker's, to the leader and to a follower."""
    topic = stage.create([[1, 2]])
    stage.write(1, topic)
    for node in (1, 2):
        for epoch in (0, 5):
            for version in (9, 12, 17):
                answer = fetched(stage, node, topic, version, current_leader_epoch=epoch, fetch_offset=3)
                yield f"fetch {version} of {node} with {epoch}", answer
            yield f"list offsets of {node} with {epoch}", listed(stage, node, topic, 9, epoch=epoch)


def nearest_replica(stage: ClusterStage) -> Iterator[Observed]:
    """KIP-392: the leader returns the replica in the consumer's rack, which serves committed records."""
    topic = stage.create([[1, 2]])
    stage.write(1, topic)
    stage.await_isr(topic, 0, 1, 2)
    wait_for(lambda: high_watermark(stage, 2, topic) == 3, "the high watermark of the follower")
    for rack in ("rack-1", "rack-2", "rack-3", "nowhere", ""):
        for version in (11, 12, 17):
            yield f"leader, {version}, {rack}", fetched(stage, 1, topic, version, rack=rack)
    wait_for(lambda: preferred(stage, 1, topic, "rack-2") == 2, "the follower to be known to have it all")
    for offset in (0, 2, 3, 4, 99):
        yield f"at the follower from {offset}", fetched(stage, 2, topic, 12, rack="rack-2", fetch_offset=offset)
        yield f"at the leader from {offset}", fetched(stage, 1, topic, 12, rack="rack-2", fetch_offset=offset)


def high_watermark(stage: ClusterStage, node: int, topic: str) -> int:
    """The high watermark that a replica returns to consumers."""
    return fetched(stage, node, topic, 12).responses[0].partitions[0].high_watermark


def preferred(stage: ClusterStage, node: int, topic: str, rack: str) -> int:
    """The preferred read replica for a consumer of the rack."""
    return fetched(stage, node, topic, 12, rack=rack).responses[0].partitions[0].preferred_read_replica


def coordinator(stage: ClusterStage, kind: int, node: int = 1) -> int:
    """The coordinator of the scenario's group or transactional id, according to one node."""

    def found() -> Any:
        request = FindCoordinatorRequest(coordinator_keys=(stage.name,), key_type=kind)
        return stage.call(node, ApiKey.FIND_COORDINATOR, 4, request).coordinators[0]

    wait_for(lambda: not found().error_code, f"the coordinator of {stage.name}")
    return found().node_id


def _at(stage: ClusterStage, node: int, name: str) -> Iterator[tuple[str, Any]]:
    """Requests of members, tools and producers to a coordinator; none of them changes anything."""
    offset = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    commit = OffsetCommitRequestTopic(name="not-there", partitions=(offset,))
    protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
    asked: list[tuple[ApiKey, int, Any]] = [
        (ApiKey.HEARTBEAT, 4, HeartbeatRequest(group_id=name, generation_id=1, member_id="m")),
        (
            ApiKey.JOIN_GROUP,
            9,
            JoinGroupRequest(
                group_id=name, session_timeout_ms=30_000, member_id="m", protocol_type="t", protocols=(protocol,)
            ),
        ),
        (ApiKey.OFFSET_COMMIT, 8, OffsetCommitRequest(group_id=name, topics=(commit,))),
        (
            ApiKey.OFFSET_FETCH,
            9,
            OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=name, topics=None),)),
        ),
        (ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest(groups=(name,))),
        (ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=(name,))),
        (
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            1,
            ConsumerGroupHeartbeatRequest(group_id=name, member_id="m", member_epoch=4, topic_partitions=None),
        ),
        (ApiKey.END_TXN, 5, EndTxnRequest(transactional_id=name, producer_id=1, producer_epoch=0, committed=True)),
        (ApiKey.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest(transactional_ids=(name,))),
    ]
    for key, version, request in asked:
        yield key.name, stage.call(node, key, version, request)


def coordinators(stage: ClusterStage) -> Iterator[Observed]:
    """All nodes return the same coordinator; the others answer NOT_COORDINATOR, or omit the group from lists."""
    of_group, of_id = coordinator(stage, GROUP), coordinator(stage, TRANSACTION)
    for kind, mine in ((GROUP, of_group), (TRANSACTION, of_id)):
        assert {coordinator(stage, kind, node) for node in stage.running} == {mine}
    commit(stage, of_group)
    given = stage.call(of_id, ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(transactional_id=stage.name))
    yield "producer", (given.error_code, given.producer_epoch)
    lists = {"groups": [], "transactions": []}
    for node in stage.running:
        groups = stage.call(node, ApiKey.LIST_GROUPS, 4, ListGroupsRequest()).groups
        lists["groups"] += [node == of_group for group in groups if group.group_id == stage.name]
        ids = stage.call(node, ApiKey.LIST_TRANSACTIONS, 0, ListTransactionsRequest()).transaction_states
        lists["transactions"] += [node == of_id for each in ids if each.transactional_id == stage.name]
    yield "listed", lists
    elsewhere = next(node for node in stage.running if node not in {of_group, of_id})
    for what, answer in _at(stage, elsewhere, stage.name):
        yield f"elsewhere, {what}", answer


def commit(stage: ClusterStage, node: int) -> None:
    """Commits an offset of an existing topic, which creates the group."""
    topic = stage.create([[1, 2]])
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topics = (OffsetCommitRequestTopic(name=topic, partitions=(part,)),)
    request = OffsetCommitRequest(group_id=stage.name, topics=topics)

    def is_taken() -> bool:
        answer = stage.call(node, ApiKey.OFFSET_COMMIT, 8, request)
        return not answer.topics[0].partitions[0].error_code

    wait_for(is_taken, f"node {node} to coordinate {stage.name}")


def envelopes(stage: ClusterStage) -> Iterator[Observed]:
    """Envelopes of brokers to the controller are not for clients: the connection is closed."""
    for node in stage.running:
        try:
            envelope = EnvelopeRequest(request_data=b"", client_host_address=b"\x7f\0\0\x01")
            answer = stage.call(node, ApiKey.ENVELOPE, 0, envelope).error_code
        except ConnectionError:
            answer = "closed"
        yield f"of {node}", answer


SCENARIOS: list[Scenario] = [wrong_broker, epochs_of_leaders, nearest_replica, coordinators, envelopes]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_answers_are_kafkas(kafka_nodes: Nodes, odradek_nodes: Nodes, scenario: Scenario) -> None:
    compare(kafka_nodes, odradek_nodes, scenario)
