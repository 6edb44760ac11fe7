"""Groups over the wire: finding coordinators, committed offsets, and the format of the offsets topic."""

import struct
import threading
from uuid import UUID

import pytest
from gateway_brokers import FaultyEnvironment, ThreadBroker
from gateway_client import RawClient, batch_of
from gateway_groups import (
    commit_error,
    committed,
    delete_topic,
    described,
    find,
    join_request,
    joined,
    offset_commit,
)

from odradek.wire.errors import ErrorCode
from odradek.wire.messages.delete_groups import DeleteGroupsRequest
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.heartbeat import HeartbeatRequest
from odradek.wire.messages.leave_group import LeaveGroupRequest
from odradek.wire.messages.list_groups import ListGroupsRequest
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
from odradek.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from odradek.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

OFFSETS = "__consumer_offsets"


@pytest.fixture(autouse=True)
def coordinator(client):
    assert find(client, "any") == 0


# FindCoordinator


@pytest.mark.parametrize("version", range(4))
def test_trap_18_find_coordinator_below_4_is_for_one_key(shared_broker, client, version):
    answer = client.call(FindCoordinatorRequest(key="g"), version)
    assert (answer.error_code, answer.node_id, answer.host, answer.port) == (0, 1, "127.0.0.1", shared_broker.port)


@pytest.mark.parametrize("version", range(4, 7))
def test_trap_18_find_coordinator_from_4_is_a_batch(shared_broker, client, version):
    answer = client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=("a", "b", "c")), version)
    assert [(one.key, one.error_code, one.port) for one in answer.coordinators] == [
        (key, 0, shared_broker.port) for key in "abc"
    ]


@pytest.mark.parametrize(("key_type", "error"), [(9, "INVALID_REQUEST")])
def test_there_is_no_coordinator_of_other_kinds(client, key_type, error):
    answer = client.call(FindCoordinatorRequest(key_type=key_type, coordinator_keys=("x",)))
    assert answer.coordinators[0].error_code == ErrorCode[error]


# Offsets


def test_commits_for_what_does_not_exist_are_refused_and_the_others_kept(client, topic):
    def part(index):
        return OffsetCommitRequestPartition(partition_index=index, committed_offset=5)

    topics = (
        OffsetCommitRequestTopic(name="missing", partitions=(part(0), part(1))),
        OffsetCommitRequestTopic(name=topic, partitions=(part(0), part(1), part(-1))),
    )
    request = OffsetCommitRequest(group_id=f"g-{topic}", generation_id_or_member_epoch=-1, topics=topics)
    missing, known = client.call(request).topics
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [(one.partition_index, one.error_code) for one in missing.partitions] == [(0, unknown), (1, unknown)]
    assert [(one.partition_index, one.error_code) for one in known.partitions] == [(0, 0), (1, unknown), (-1, unknown)]
    assert committed(client, f"g-{topic}") == {(topic, 0): 5}


def test_offsets_go_with_their_topic(client, topic):
    client.create_topic(f"{topic}-2")
    group = f"g-{topic}"
    assert [commit_error(client, group, 1, name) for name in (topic, f"{topic}-2")] == [0, 0]
    delete_topic(client, topic)
    assert committed(client, group) == {(f"{topic}-2", 0): 1}


def test_offset_delete(client, topic):
    group = f"g-{topic}"
    assert commit_error(client, group, 1, topic) == 0
    asked = OffsetDeleteRequestTopic(name=topic, partitions=(OffsetDeleteRequestPartition(partition_index=0),))
    answer = client.call(OffsetDeleteRequest(group_id=group, topics=(asked,)))
    assert (answer.error_code, answer.topics[0].partitions[0].error_code) == (0, 0)
    assert committed(client, group) == {}


def test_offset_fetch_of_nothing_known(client, topic):
    request = OffsetFetchRequest(
        group_id="nobody", topics=(OffsetFetchRequestTopic(name=topic, partition_indexes=(0, 9)),)
    )
    [answered] = client.call(request, 1).topics
    assert [(part.committed_offset, part.error_code) for part in answered.partitions] == [(-1, 0), (-1, 0)]


def test_trap_22_kafka_gos_fixed_versions_work_together(client, topic):
    """FindCoordinator 0, JoinGroup 2, SyncGroup 0, Heartbeat 0, OffsetCommit 2, OffsetFetch 1, LeaveGroup 0."""
    group = f"g-{topic}"
    assert client.call(FindCoordinatorRequest(key=group), 0).error_code == 0
    member = client.call(join_request(group), 2)
    assert (member.error_code, member.leader) == (0, member.member_id)
    ids = {"group_id": group, "generation_id": member.generation_id, "member_id": member.member_id}
    assignment = SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"all of it")
    assert bytes(client.call(SyncGroupRequest(**ids, assignments=(assignment,)), 0).assignment) == b"all of it"
    assert client.call(HeartbeatRequest(**ids), 0).error_code == 0
    commit = offset_commit(
        group, 7, topic, member_id=member.member_id, generation_id_or_member_epoch=member.generation_id
    )
    assert client.call(commit, 2).topics[0].partitions[0].error_code == 0
    asked = OffsetFetchRequestTopic(name=topic, partition_indexes=(0,))
    assert (
        client.call(OffsetFetchRequest(group_id=group, topics=(asked,)), 1).topics[0].partitions[0].committed_offset
        == 7
    )
    assert client.call(LeaveGroupRequest(group_id=group, member_id=member.member_id), 0).error_code == 0


# Members


@pytest.mark.parametrize("version", range(4, 10))
def test_trap_17_a_new_member_is_told_its_id_first(client, version):
    first = client.call(join_request(f"g17-{version}"), version)
    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert first.member_id.startswith("raw-")
    second = client.call(join_request(f"g17-{version}", first.member_id), version)
    assert (second.error_code, second.member_id) == (0, first.member_id)


@pytest.mark.parametrize("version", range(4))
def test_trap_17_older_versions_get_in_at_once(client, version):
    assert client.call(join_request(f"g17-{version}"), version).error_code == 0


def test_trap_17_static_members_get_in_at_once_and_stay_when_they_close(shared_broker, client):
    with RawClient(shared_broker.address) as static:
        first = static.call(join_request("g17-static", group_instance_id="i"))
        assert first.error_code == 0
    [member] = described(client, "g17-static").members
    assert (member.group_instance_id, member.member_id) == ("i", first.member_id)
    with RawClient(shared_broker.address) as back:
        again = back.call(join_request("g17-static", group_instance_id="i"))
        assert again.error_code == 0
        assert again.member_id != first.member_id
    assert len(described(client, "g17-static").members) == 1


def test_a_join_is_answered_when_the_other_members_have_come_back(shared_broker, client):
    """The second connection's join must not be answered before the first connection has joined again."""
    group = "g-two"
    leader = joined(client, group)
    with RawClient(shared_broker.address) as other:
        required = other.call(join_request(group))
        waiting = other.send(join_request(group, required.member_id))
        while described(client, group).group_state != "PreparingRebalance":
            pass
        heartbeat = HeartbeatRequest(group_id=group, generation_id=leader.generation_id, member_id=leader.member_id)
        assert client.call(heartbeat).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        again = client.call(join_request(group, leader.member_id))
        assert (again.error_code, again.generation_id, len(again.members)) == (0, leader.generation_id + 1, 2)
        assert other.receive(waiting).generation_id == again.generation_id


# Limits


def test_a_commit_too_large_for_the_topic_is_refused_and_nothing_of_it_kept(client, topic):
    wide = f"{topic}-wide"
    client.create_topic(wide, 600)
    group = f"g-{topic}"
    parts = tuple(
        OffsetCommitRequestPartition(partition_index=n, committed_offset=1, committed_metadata="x" * 4000)
        for n in range(600)
    )
    topics = (OffsetCommitRequestTopic(name=wide, partitions=parts),)
    request = OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=-1, topics=topics)
    answered = client.call(request).topics[0].partitions
    assert {part.error_code for part in answered} == {ErrorCode.INVALID_COMMIT_OFFSET_SIZE}
    assert committed(client, group) == {}
    assert commit_error(client, group, 7, wide) == 0
    assert committed(client, group) == {(wide, 0): 7}


def test_assignments_too_large_for_the_topic_are_refused_and_the_group_goes_on(client):
    member = joined(client, "g-large")
    ids = {"group_id": "g-large", "generation_id": member.generation_id, "member_id": member.member_id}
    ids |= {"protocol_type": "consumer", "protocol_name": "range"}

    def sync(size):
        assignment = SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"x" * size)
        return client.call(SyncGroupRequest(**ids, assignments=(assignment,)))

    assert sync(2_000_000).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert described(client, "g-large").group_state == "PreparingRebalance"  # as in Kafka
    beat = HeartbeatRequest(group_id="g-large", generation_id=member.generation_id, member_id=member.member_id)
    assert client.call(beat).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert sync(1000).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    ids["generation_id"] = joined(client, "g-large", member_id=member.member_id).generation_id
    answer = sync(1000)
    assert (answer.error_code, len(answer.assignment)) == (0, 1000)
    assert described(client, "g-large").group_state == "Stable"


def test_the_offsets_of_a_deleted_topic_go_however_many_they_are(broker_log):
    """Their tombstones exceed a batch and are written in several."""
    with ThreadBroker(offsets_topic_num_partitions=1) as broker, RawClient(broker.address) as client:
        client.create_topic("wide", 2000)
        client.create_topic("kept")
        assert find(client, "g") == 0
        parts = tuple(OffsetCommitRequestPartition(partition_index=n, committed_offset=1) for n in range(2000))
        topics = (OffsetCommitRequestTopic(name="wide", partitions=parts),)
        for n in range(15):
            group = f"group-{n}-" + "x" * 200
            request = OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=-1, topics=topics)
            assert {part.error_code for part in client.call(request).topics[0].partitions} == {0}
            assert commit_error(client, group, 5, "kept") == 0
        delete_topic(client, "wide")
        for n in range(15):
            assert committed(client, f"group-{n}-" + "x" * 200) == {("kept", 0): 5}


# ListGroups


class HeldListing(FaultyEnvironment):
    """A disk that is slow to list its logs, from which a starting broker learns the groups."""

    def __init__(self):
        super().__init__()
        self.may_list = threading.Event()

    def open_store(self, url):
        store = super().open_store(url)
        list_partitions = store.partitions

        def held():
            assert self.may_list.wait(60)
            return list_partitions()

        store.partitions = held
        return store


def test_groups_of_all_shards_are_listed_before_and_after_a_restart(tmp_path, broker_log):
    with ThreadBroker(f"lmdb://{tmp_path}/data") as broker:
        names = {f"group-{n}" for n in range(30)}  # some of them share a shard, most do not
        with RawClient(broker.address) as client:
            client.create_topic("t")
            assert find(client, "g") == 0
            for name in names:
                assert commit_error(client, name, 5) == 0
            assert len(broker.broker.services.groups.active_shards()) > 10
            assert {group.group_id for group in client.call(ListGroupsRequest()).groups} == names
        broker.stop()
        broker.make_env = HeldListing
        broker.start()
        with RawClient(broker.address) as client:
            assert client.call(ListGroupsRequest()).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            broker.env.may_list.set()
            while (answer := client.call(ListGroupsRequest())).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                pass
            assert {group.group_id for group in answer.groups} == names
            assert committed(client, "group-7") == {("t", 0): 5}


# The offsets topic


def test_the_offsets_topic_is_a_topic_like_others_in_kafkas_format(broker_log):
    """Parsed with nothing but struct, in the format that Kafka's own tools expect."""
    with ThreadBroker(offsets_topic_num_partitions=1) as broker, RawClient(broker.address) as client:
        client.create_topic("t")
        assert find(client, "g") == 0
        assert commit_error(client, "g", 42) == 0
        [described_] = client.call(MetadataRequest(topics=(MetadataRequestTopic(name=OFFSETS),))).topics
        assert (described_.is_internal, len(described_.partitions)) == (True, 1)
        [record] = [record for _, records in client.fetch_all(OFFSETS) for record in records]
        assert record.key == struct.pack(">hh1sh1si", 1, 1, b"g", 1, b"t", 0)
        # version 4: the note's length plus one in a byte, and one tagged field, number 0, of 16 bytes: the topic's id
        version, offset, epoch, size, note, committed_ms, tags = struct.unpack(">hqib4sq3s16x", record.value)
        assert (version, offset, epoch, size, note) == (4, 42, 3, 5, b"note")
        assert committed_ms == record.timestamp_ms
        [of_topic] = client.call(MetadataRequest(topics=(MetadataRequestTopic(name="t"),))).topics
        assert (tags, UUID(bytes=record.value[-16:])) == (b"\x01\x00\x10", of_topic.topic_id)


def test_groups_begin_anew_when_the_offsets_topic_is_deleted(broker_log):
    with ThreadBroker() as broker, RawClient(broker.address) as client, RawClient(broker.address) as member:
        client.create_topic("t")
        assert find(client, "g") == 0
        assert commit_error(client, "g", 42) == 0
        first = joined(member, "g")
        required = client.call(join_request("g"))
        with RawClient(broker.address) as waiting:
            sent = waiting.send(join_request("g", required.member_id))
            while described(client, "g").group_state != "PreparingRebalance":
                pass
            delete_topic(client, OFFSETS)
            assert waiting.receive(sent).error_code == ErrorCode.NOT_COORDINATOR
        heartbeat = HeartbeatRequest(group_id="g", generation_id=first.generation_id, member_id=first.member_id)
        assert member.call(heartbeat).error_code == ErrorCode.NOT_COORDINATOR
        assert find(client, "g") == 0
        assert committed(client, "g") == {}
        assert commit_error(client, "g", 1) == 0
        assert joined(member, "g").generation_id == 1


class NothingIsDeleted(FaultyEnvironment):
    """A store as a broker leaves it that was killed before it deleted a log."""

    def open_store(self, url):
        store = super().open_store(url)
        store.delete = lambda _key: None
        return store


def test_a_deleted_offsets_topic_does_not_keep_the_broker_from_starting(tmp_path, broker_log):
    with ThreadBroker(f"lmdb://{tmp_path}/data", NothingIsDeleted) as broker:
        with RawClient(broker.address) as client:
            client.create_topic("t")
            assert find(client, "g") == 0
            assert commit_error(client, "g", 42) == 0
            delete_topic(client, OFFSETS)
        broker.stop()
        broker.make_env = FaultyEnvironment
        broker.start()
        with RawClient(broker.address) as client:
            assert find(client, "g") == 0
            assert committed(client, "g") == {}
            assert client.produce("t", batch_of(b"x")).error_code == 0


def test_a_group_that_is_deleted_twice_in_a_request_is_deleted_once(client, coordinator, topic):
    """As in Kafka: one answer for each name."""
    name = f"{topic}-twice"
    client.call(FindCoordinatorRequest(coordinator_keys=(name,)))
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    committed = OffsetCommitRequest(group_id=name, topics=(OffsetCommitRequestTopic(name=topic, partitions=(part,)),))
    assert client.call(committed, 8).topics[0].partitions[0].error_code == 0
    results = client.call(DeleteGroupsRequest(groups_names=(name, "no-such", name))).results
    assert [(each.group_id, each.error_code) for each in results] == [
        (name, 0),
        ("no-such", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
