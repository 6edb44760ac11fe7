"""A request with very many items delays no other connection: handlers yield, and threads decode long frames."""

import threading

import pytest
import trio
from gateway_brokers import ThreadBroker
from gateway_client import RawClient
from gateway_groups import find

from odradek.gateway.server.context import TURN_EVERY, RequestContext
from odradek.gateway.server.dispatch import LARGE_FRAME_BYTES, Dispatcher
from odradek.gateway.server.session import Session
from odradek.wire.api_keys import ApiKey
from odradek.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.wire.messages.delete_groups import DeleteGroupsRequest
from odradek.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from odradek.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.wire.messages.describe_groups import DescribeGroupsRequest
from odradek.wire.messages.describe_producers import DescribeProducersRequest
from odradek.wire.messages.describe_producers import TopicRequest as ProducersOfTopic
from odradek.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from odradek.wire.messages.describe_transactions import DescribeTransactionsRequest
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
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
from odradek.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

COUNT = 5 * TURN_EVERY
AS_A_CLIENT = {AddPartitionsToTxnRequest: 3}
"""The last versions for clients, of requests whose newer versions are for brokers only."""
NAMES = tuple(f"n{number}" for number in range(COUNT))
NUMBERS = range(COUNT)
TOPIC_RESOURCE = 2

LISTS = [
    AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=1,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=(AddPartitionsToTxnTopic(name="t", partitions=tuple(NUMBERS)),),
    ),
    DeleteGroupsRequest(groups_names=NAMES),
    DeleteRecordsRequest(
        timeout_ms=1000,
        topics=(
            DeleteRecordsTopic(
                name="t",
                partitions=tuple(DeleteRecordsPartition(partition_index=number, offset=0) for number in NUMBERS),
            ),
        ),
    ),
    DescribeConfigsRequest(
        resources=tuple(DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=name) for name in NAMES)
    ),
    DescribeGroupsRequest(groups=NAMES),
    DescribeProducersRequest(topics=(ProducersOfTopic(name="t", partition_indexes=tuple(NUMBERS)),)),
    DescribeTopicPartitionsRequest(topics=tuple(TopicRequest(name=name) for name in NAMES)),
    DescribeTransactionsRequest(transactional_ids=NAMES),
    FindCoordinatorRequest(key_type=0, coordinator_keys=NAMES),
    ListOffsetsRequest(
        topics=(
            ListOffsetsTopic(
                name="t",
                partitions=tuple(ListOffsetsPartition(partition_index=number, timestamp=-1) for number in NUMBERS),
            ),
        )
    ),
    MetadataRequest(topics=tuple(MetadataRequestTopic(name=name) for name in NAMES), allow_auto_topic_creation=False),
    OffsetCommitRequest(
        group_id="g",
        topics=tuple(
            OffsetCommitRequestTopic(
                name=name, partitions=(OffsetCommitRequestPartition(partition_index=0, committed_offset=1),)
            )
            for name in NAMES
        ),
    ),
    OffsetFetchRequest(groups=tuple(OffsetFetchRequestGroup(group_id=name, topics=None) for name in NAMES)),
    OffsetForLeaderEpochRequest(
        topics=(
            OffsetForLeaderTopic(
                topic="t",
                partitions=tuple(OffsetForLeaderPartition(partition=number, leader_epoch=0) for number in NUMBERS),
            ),
        )
    ),
    TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=1,
        producer_epoch=0,
        topics=tuple(
            TxnOffsetCommitRequestTopic(
                name=name, partitions=(TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1),)
            )
            for name in NAMES
        ),
    ),
]


@pytest.fixture(scope="module")
def broker():
    with ThreadBroker() as running:
        with RawClient(running.address) as client:
            client.create_topic("t")
            assert find(client, "g") == 0
        yield running


@pytest.mark.parametrize("request_", LISTS, ids=lambda one: type(one).__name__)
def test_a_long_list_leaves_turns_to_others(broker, request_, monkeypatch):
    turns, checkpoint = [], RequestContext.checkpoint

    async def counted():
        turns.append(1)
        await checkpoint()

    monkeypatch.setattr(RequestContext, "checkpoint", staticmethod(counted))
    with RawClient(broker.address) as client:
        client.call(request_, AS_A_CLIENT.get(type(request_)))
    assert len(turns) >= COUNT // TURN_EVERY


def test_a_long_frame_is_read_and_answered_beside_the_loop(broker, monkeypatch):
    threads, loop = {}, broker.in_trio(threading.current_thread)
    real_open, real_encode = Dispatcher.open, RequestContext.encode

    def seen_open(self, frame, *rest):
        threads["decode"] = threading.current_thread()
        return real_open(self, frame, *rest)

    def seen_encode(self, *arguments):
        threads["encode"] = threading.current_thread()
        return real_encode(self, *arguments)

    monkeypatch.setattr(Dispatcher, "open", seen_open)
    monkeypatch.setattr(RequestContext, "encode", seen_encode)
    with RawClient(broker.address) as client:
        for length, count, beside in ((200, LARGE_FRAME_BYTES // 200, True), (1, 1, False)):
            topics = tuple([MetadataRequestTopic(name=f"{number:x>{length}}") for number in range(count)])
            answer = client.call(MetadataRequest(topics=topics, allow_auto_topic_creation=False))
            assert len(answer.topics) == count
            assert [thread is not loop for thread in threads.values()] == [beside, beside]


def test_a_long_frame_that_does_not_parse_closes_its_connection_only(broker, broker_log):
    with RawClient(broker.address) as client, RawClient(broker.address) as other:
        client.send_frame(b"\x00\x03\x00\x09\x00\x00\x00\x01" + b"\xff" * LARGE_FRAME_BYTES)
        assert client.is_closed_by_broker()
        assert other.call(MetadataRequest(topics=(MetadataRequestTopic(name="t"),))).topics[0].error_code == 0


def test_turns_come_also_where_each_thing_is_answered_with_more(monkeypatch):
    turns = []

    async def counted():
        turns.append(1)

    monkeypatch.setattr(RequestContext, "checkpoint", staticmethod(counted))

    async def handle():
        ctx = RequestContext(
            ApiKey.OFFSET_FETCH, 9, 1, None, Session("peer", "host", "listener"), services=None, began_us=0
        )
        for _ in range(COUNT):
            await ctx.take_turns()
            ctx.will_answer(1)

    trio.run(handle)
    assert len(turns) >= COUNT // TURN_EVERY
