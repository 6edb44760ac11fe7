"""The largest requests that clients send, beside other clients: none makes a turn of the event loop a long one.

A victim's wait is bounded by the count of long turns, not by a clock; its requests, sent all the while, only have to be
answered. The garbage collector is off, since it would traverse the objects of this test process.
"""

import gc
import threading

import pytest
from further_large_requests import WITHOUT_SIZE, further_requests
from gateway_brokers import ThreadBroker
from gateway_client import RawClient, batch_of, produce_many
from gateway_groups import find
from long_form import LONG_TURN_MS, rounds

from odradek.wire.api_keys import ADVERTISED, ApiKey
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.wire.messages.alter_configs import AlterConfigsRequest
from odradek.wire.messages.alter_configs import AlterConfigsResource as ReplacedResource
from odradek.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.delete_groups import DeleteGroupsRequest
from odradek.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from odradek.wire.messages.delete_topics import DeleteTopicsRequest
from odradek.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.wire.messages.describe_groups import DescribeGroupsRequest
from odradek.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from odradek.wire.messages.describe_producers import DescribeProducersRequest
from odradek.wire.messages.describe_producers import TopicRequest as ProducersOfTopic
from odradek.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from odradek.wire.messages.describe_transactions import DescribeTransactionsRequest
from odradek.wire.messages.elect_leaders import ElectLeadersRequest
from odradek.wire.messages.end_txn import EndTxnRequest
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.messages.list_config_resources import ListConfigResourcesRequest
from odradek.wire.messages.list_groups import ListGroupsRequest
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from odradek.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from odradek.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

TOPICS = rounds(1000, 10_000)
PARTITIONS = rounds(5000, 9999)
"""In the long form, the maximum that one request may create.

The offsets of all of them are committed at once, which is one operation of the group's shard and one batch.
"""
TOPIC_RESOURCE = 2
TOPIC_BY_NAME = 5
MINUTE_MS = 60_000
TIMEOUT_S = 300

NAMES = [f"t{number}" for number in range(TOPICS)]
WIDE = range(PARTITIONS)


def _new(names):
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=-1) for name in names]
    return CreateTopicsRequest(topics=tuple(topics), timeout_ms=MINUTE_MS)


def _altered(kind, config):
    return tuple([kind(resource_type=TOPIC_RESOURCE, resource_name=name, configs=config) for name in NAMES])


def _fetch(offset, max_wait_ms, epoch):
    parts = [FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1000) for index in WIDE]
    topics = (FetchTopic(topic="wide", partitions=tuple(parts)),)
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=10**8, topics=topics, session_epoch=epoch)


def _list_offsets(timestamp):
    parts = [ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in WIDE]
    return ListOffsetsRequest(topics=(ListOffsetsTopic(name="wide", partitions=tuple(parts)),))


def _offsets(part, topic, request, **fields):
    parts = [part(partition_index=index, **fields) for index in WIDE]
    return request(group_id="g", topics=(topic(name="wide", partitions=tuple(parts)),))


def _requests(client):
    """The requests in order, each with its version unless it is the client's default."""
    yield DeleteTopicsRequest(topic_names=("none",), timeout_ms=MINUTE_MS), TOPIC_BY_NAME
    for at in range(0, TOPICS, 1000):
        yield _new(NAMES[at : at + 1000]), None
    yield _new(NAMES[:1000]), None
    yield MetadataRequest(topics=None), None
    yield MetadataRequest(topics=tuple([MetadataRequestTopic(name=name) for name in NAMES])), None
    unknown = tuple([MetadataRequestTopic(name=f"auto-{number}") for number in range(500)])
    yield MetadataRequest(topics=unknown, allow_auto_topic_creation=True), None
    yield DescribeTopicPartitionsRequest(topics=(), response_partition_limit=10**6), None
    resources = [DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=name) for name in NAMES]
    yield DescribeConfigsRequest(resources=tuple(resources), include_synonyms=True, include_documentation=True), None
    shorter = (AlterableConfig(name="retention.ms", value="100000"),)
    yield IncrementalAlterConfigsRequest(resources=_altered(AlterConfigsResource, shorter)), None
    yield AlterConfigsRequest(resources=_altered(ReplacedResource, ())), None
    yield ListConfigResourcesRequest(), None
    yield FindCoordinatorRequest(key_type=0, coordinator_keys=tuple(NAMES)), None
    for timestamp in (-1, -2, 5):
        yield _list_offsets(timestamp), None
    yield produce_many([("wide", index, batch_of(b"x")) for index in WIDE]), None
    for fetch in (_fetch(0, 0, -1), _fetch(0, 0, 0), _fetch(1, 100, -1)):
        yield fetch, None
    yield DescribeLogDirsRequest(topics=None), None
    yield DescribeProducersRequest(topics=(ProducersOfTopic(name="wide", partition_indexes=tuple(WIDE)),)), None
    epochs = [OffsetForLeaderPartition(partition=index, leader_epoch=0) for index in WIDE]
    yield OffsetForLeaderEpochRequest(topics=(OffsetForLeaderTopic(topic="wide", partitions=tuple(epochs)),)), None
    for _ in range(2):
        yield _offsets(OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetCommitRequest), None
    yield OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=None),)), None
    yield _offsets(OffsetDeleteRequestPartition, OffsetDeleteRequestTopic, OffsetDeleteRequest), None
    yield DescribeGroupsRequest(groups=tuple(NAMES)), None
    yield DeleteGroupsRequest(groups_names=tuple(NAMES)), None
    yield ListGroupsRequest(), None
    yield DescribeTransactionsRequest(transactional_ids=tuple(NAMES)), None
    yield ListPartitionReassignmentsRequest(timeout_ms=1000, topics=None), None
    yield ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=1000), None
    protocols = (JoinGroupRequestProtocol(name="range", metadata=bytes(1_000_000)),)
    yield (
        JoinGroupRequest(group_id="big", protocol_type="consumer", protocols=protocols, session_timeout_ms=10_000),
        None,
    )
    yield from further_requests(client, WIDE)
    dropped = [DeleteRecordsPartition(partition_index=index, offset=-1) for index in WIDE]
    records = DeleteRecordsTopic(name="wide", partitions=tuple(dropped))
    yield DeleteRecordsRequest(timeout_ms=MINUTE_MS, topics=(records,)), None
    grown = [CreatePartitionsTopic(name=name, count=2, assignments=None) for name in NAMES[:1000]]
    yield CreatePartitionsRequest(timeout_ms=MINUTE_MS, topics=tuple(grown)), None
    yield DeleteTopicsRequest(topic_names=tuple(NAMES[:1000]), timeout_ms=MINUTE_MS), TOPIC_BY_NAME
    yield DeleteTopicsRequest(topic_names=("wide",), timeout_ms=MINUTE_MS), TOPIC_BY_NAME
    yield _new(["grown"]), None
    grown = (CreatePartitionsTopic(name="grown", count=1 + PARTITIONS, assignments=None),)
    yield CreatePartitionsRequest(timeout_ms=MINUTE_MS, topics=grown), None
    assigned = [CreatableReplicaAssignment(partition_index=index, broker_ids=(1,)) for index in WIDE]
    topic = CreatableTopic(name="assigned", num_partitions=-1, replication_factor=-1, assignments=tuple(assigned))
    yield CreateTopicsRequest(topics=(topic,), timeout_ms=MINUTE_MS), None
    yield DeleteTopicsRequest(topic_names=("grown", "assigned"), timeout_ms=MINUTE_MS), TOPIC_BY_NAME


class Victim:
    """A client that sends small requests continuously until it is stopped."""

    def __init__(self, address):
        self.answers = 0
        self._address = address
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def _ask(self):
        with RawClient(self._address) as client:
            client.set_timeout(TIMEOUT_S)
            while not self._stop.wait(0.01):
                client.call(MetadataRequest(topics=()))
                self.answers += 1

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


@pytest.mark.torture
@pytest.mark.timeout(1200)
def test_no_request_however_large_holds_up_the_loop(no_collector):
    with (
        ThreadBroker(odradek_loop_stall_warn_ms=LONG_TURN_MS) as broker,
        RawClient(broker.address) as client,
        Victim(broker.address) as victim,
    ):
        client.set_timeout(TIMEOUT_S)
        loop, held_up, driven = broker.broker.services.loop, {}, {ApiKey.END_TXN, ApiKey.INIT_PRODUCER_ID}
        client.create_topic("wide", partitions=PARTITIONS)
        assert find(client, "g") == 0
        assert client.call(FindCoordinatorRequest(key_type=1, coordinator_keys=("x",))).coordinators[0].error_code == 0
        last = name = "none"
        for request, version in _requests(client):
            before, last, name = loop.long_turns, name, type(request).__name__
            driven.add(ApiKey(type(request).__message__.api_key))
            client.call(request, version)
            broker.in_trio(gc.get_count)  # runs in a later turn, so that the turn of the answer has ended
            if loop.long_turns > before:
                # the sampler may count a turn some milliseconds after it has ended
                held_up[f"{name}, or {last}"] = (loop.longest_ms, loop.last_stack)
        _end_a_large_transaction(client)
        assert victim.answers
    assert {key: reason for key, reason in WITHOUT_SIZE.items() if key in driven} == {}
    assert [key.name for key in ADVERTISED if key not in driven and key not in WITHOUT_SIZE] == []
    assert held_up == {}
    assert loop.long_turns == 0, loop.last_stack


def _end_a_large_transaction(client):
    """Ends a transaction over many partitions, so that all their markers are written."""
    client.create_topic("marked", partitions=PARTITIONS)
    given = _init_producer(client)
    who = {"producer_id": given.producer_id, "producer_epoch": given.producer_epoch}
    topics = (AddPartitionsToTxnTopic(name="marked", partitions=tuple(WIDE)),)
    added = client.call(
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=given.producer_id,
            v3_and_below_producer_epoch=given.producer_epoch,
            v3_and_below_topics=topics,
        ),
        3,
    )
    assert {
        part.partition_error_code for each in added.results_by_topic_v3_and_below for part in each.results_by_partition
    } == {0}
    assert client.call(EndTxnRequest(transactional_id="x", committed=True, **who), 3).error_code == 0
    while (again := _init_producer(client)).error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
        pass  # as clients do until all markers are written
    assert again.error_code == 0


def _init_producer(client):
    return client.call(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=MINUTE_MS))
