"""Group shards that are loading or cannot be loaded: the answers to their clients."""

import threading
from contextlib import ExitStack

import pytest
import trio
from gateway_brokers import ThreadBroker
from gateway_client import RawClient, assert_serves
from gateway_groups import commit_error, committed, described, find, join_request, joined

from odradek.coordinator.partitioner import partition_for
from odradek.gateway.coordinators.groups import OFFSETS_TOPIC
from odradek.gateway.replication.replica import Replica
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.delete_groups import DeleteGroupsRequest
from odradek.wire.messages.describe_groups import DescribeGroupsRequest
from odradek.wire.messages.heartbeat import HeartbeatRequest
from odradek.wire.messages.leave_group import LeaveGroupRequest
from odradek.wire.messages.list_groups import ListGroupsRequest
from odradek.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic
from odradek.wire.messages.sync_group import SyncGroupRequest


def test_while_a_shard_loads_nothing_is_answered_but_heartbeats(tmp_path, broker_log):
    """As in Kafka: never an empty answer. Heartbeats succeed, and the session begins again after loading.

    SyncGroup makes its member join again.
    """
    with ThreadBroker(f"lmdb://{tmp_path}/data") as broker, RawClient(broker.address) as client:
        client.create_topic("t")
        assert find(client, "g") == 0
        assert commit_error(client, "g", 5) == 0
        broker.env.fail_next_write()
        assert commit_error(client, "g", 6) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        broker.env.hold()
        with RawClient(broker.address) as first:
            first.send(DescribeGroupsRequest(groups=("g",)))
            broker.env.await_held()
            assert client.call(HeartbeatRequest(group_id="g", generation_id=1, member_id="m")).error_code == 0
            loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert client.call(join_request("g")).error_code == loading
            syncing = SyncGroupRequest(group_id="g", protocol_type="", protocol_name="")
            assert client.call(syncing).error_code == ErrorCode.REBALANCE_IN_PROGRESS
            assert client.call(LeaveGroupRequest(group_id="g")).error_code == loading
            assert client.call(ListGroupsRequest()).error_code == loading
            assert described(client, "g").error_code == loading
            assert commit_error(client, "g", 7) == loading
            fetch = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=None),))
            assert client.call(fetch).groups[0].error_code == loading
            assert client.call(DeleteGroupsRequest(groups_names=("g",))).results[0].error_code == loading
            broker.env.release()
        assert committed(client, "g") == {("t", 0): 5}


@pytest.mark.parametrize(("version", "where"), [(1, "partition"), (7, "request"), (8, "group")])
def test_a_shard_that_cannot_be_read_sends_fetchers_of_offsets_to_look_elsewhere(broker_log, version, where):
    """COORDINATOR_NOT_AVAILABLE, the answer to other requests, is fatal for consumers older than 3.9."""
    with ThreadBroker() as broker, RawClient(broker.address) as client:
        client.create_topic("t")
        assert find(client, "g") == 0
        broker.env.faults.read_error = broker.env.faults.write_error = 1.0
        assert commit_error(client, "g", 6) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        topics = (OffsetFetchRequestTopic(name="t", partition_indexes=(0,)),)
        asked = OffsetFetchRequestGroup(group_id="g", topics=None)
        fields = {"groups": (asked,)} if where == "group" else {"group_id": "g", "topics": topics}
        answer = client.call(OffsetFetchRequest(**fields), version)
        codes = {
            "request": answer.error_code,
            "group": answer.groups[0].error_code if answer.groups else 0,
            "partition": answer.topics[0].partitions[0].error_code if answer.topics else 0,
        }
        assert codes == {**dict.fromkeys(codes, 0), where: ErrorCode.NOT_COORDINATOR}


def test_a_shard_that_loads_slowly_holds_up_no_other(tmp_path, broker_log, monkeypatch):
    slow, quick = "g", next(name for name in "abcdef" if partition_for(name, 2) != partition_for("g", 2))
    may_load, ensure_open = threading.Event(), Replica.ensure_open

    async def held(replica):
        key = replica.key
        if key.topic == OFFSETS_TOPIC and key.index == partition_for(slow, 2):
            assert await trio.to_thread.run_sync(may_load.wait, 60)
        await ensure_open(replica)

    with ThreadBroker(f"lmdb://{tmp_path}/data", offsets_topic_num_partitions=2) as broker:
        with RawClient(broker.address) as client:
            client.create_topic("t")
            assert find(client, slow) == 0
            assert [commit_error(client, name, 5) for name in (slow, quick)] == [0, 0]
        broker.stop()
        monkeypatch.setattr(Replica, "ensure_open", held)
        broker.start()
        with RawClient(broker.address) as client:
            assert committed(client, quick) == {("t", 0): 5}
            assert joined(client, quick).generation_id == 1  # a timer completes this generation
            assert described(client, slow).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            may_load.set()
            assert committed(client, slow) == {("t", 0): 5}


def test_requests_wait_while_a_new_partition_is_opened(tmp_path, broker_log, monkeypatch):
    """In Kafka a client cannot find the coordinator before the partition is open."""
    opening, may_open, ensure_open = threading.Event(), threading.Event(), Replica.ensure_open

    async def held(replica):
        if replica.key.topic == OFFSETS_TOPIC:
            opening.set()
            assert await trio.to_thread.run_sync(may_open.wait, 60)
        await ensure_open(replica)

    with ThreadBroker(f"lmdb://{tmp_path}/data") as broker, ExitStack() as stack:
        clients = [stack.enter_context(RawClient(broker.address)) for _ in range(3)]
        while clients[0].call(ListGroupsRequest()).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            pass  # until the broker has listed its logs, the partition may be one that it has to load
        assert find(clients[0], "g") == 0
        monkeypatch.setattr(Replica, "ensure_open", held)
        request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        sent = [client.send(request) for client in clients]
        assert opening.wait(60)
        assert_serves(broker.address)  # and so has read the earlier requests
        may_open.set()
        answers = [client.receive(which).error_code for client, which in zip(clients, sent, strict=True)]
        assert answers == [ErrorCode.UNKNOWN_MEMBER_ID] * 3
