"""Operations on large existing state (members, groups, producers, segments) make no long turn of the event loop.

As in `test_large_requests`, which has the large requests, only the count of long turns is checked.
"""

import time

import pytest
from gateway_brokers import ThreadBroker
from gateway_client import RawClient, batch_of, produce_request
from gateway_groups import committed, delete_topic, described, find, offset_commit
from long_form import LONG_TURN_MS, rounds

from odradek.wire.messages.delete_groups import DeleteGroupsRequest
from odradek.wire.messages.describe_groups import DescribeGroupsRequest
from odradek.wire.messages.describe_producers import DescribeProducersRequest
from odradek.wire.messages.describe_producers import TopicRequest as ProducersOfTopic
from odradek.wire.messages.end_txn import EndTxnRequest
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.wire.messages.list_groups import ListGroupsRequest
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from odradek.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

MEMBERS = rounds(300, 1000)
GROUPS = rounds(2000, 10_000)
PRODUCERS = rounds(5000, 60_000)
SEGMENTS = rounds(1000, 4000)
WIDE = rounds(1, 2)
"""The number of topics with WIDE_PARTITIONS partitions.

A commit is decided in one turn, of 2.5 to 2.8 us for each partition on a busy machine: 40,000 partitions took 101 and
111 ms. The default `max.message.bytes` of the offsets topic allows about 17,000.
"""
WIDE_PARTITIONS = rounds(5000, 9990)
AT_ONCE = 100
"""The number of requests in flight at a time."""
TOPIC, BROKER = 2, 4
TIMEOUT_S = 300

pytestmark = [pytest.mark.torture, pytest.mark.timeout(1200), pytest.mark.usefixtures("no_collector")]


class Bench:
    """A broker, a client, and the long turns of the broker's event loop."""

    def __init__(self, broker):
        self.broker = broker
        self.client = RawClient(broker.address)
        self.client.set_timeout(TIMEOUT_S)
        self.loop = broker.broker.services.loop
        self.held_up = {}

    def step(self, name, call):
        """Returns the result of `call`; a long turn that it makes is recorded in `held_up`."""
        before = self.loop.long_turns
        result = call()
        self.broker.in_trio(lambda: None)  # runs in a later turn, so that the turn of the answer has ended
        if self.loop.long_turns > before:
            self.held_up[name] = (self.loop.longest_ms, self.loop.last_stack)
        return result

    def many(self, requests, version=None):
        """Sends all requests, some at a time, and returns the answers."""
        answers = []
        for at in range(0, len(requests), AT_ONCE):
            sent = [self.client.send(request, version) for request in requests[at : at + AT_ONCE]]
            answers += [self.client.receive(each) for each in sent]
        return answers

    def alter(self, kind, resource, name, value):
        config = (AlterableConfig(name=name, value=value),)
        resources = (AlterConfigsResource(resource_type=kind, resource_name=resource, configs=config),)
        [answer] = self.client.call(IncrementalAlterConfigsRequest(resources=resources)).responses
        assert answer.error_code == 0, answer

    def until(self, is_so):
        """Polls until `is_so()`; a failing test ends by its time-out."""
        while not is_so():
            time.sleep(0.05)


@pytest.fixture
def bench(request):
    with ThreadBroker(odradek_loop_stall_warn_ms=LONG_TURN_MS, **getattr(request, "param", {})) as broker:
        made = Bench(broker)
        with made.client:
            yield made
        assert made.held_up == {}
        assert made.loop.long_turns == 0, made.loop.last_stack


@pytest.mark.parametrize("bench", [{"group_initial_rebalance_delay_ms": 1000}], indirect=True)
def test_a_classic_group_of_very_many_members(bench):
    assert find(bench.client, "crowd") == 0
    clients = [RawClient(bench.broker.address) for _ in range(MEMBERS)]
    for client in clients:
        client.set_timeout(TIMEOUT_S)
    try:
        members = bench.step("ids", lambda: [client.call(_join("")).member_id for client in clients])
        joined = bench.step("join", lambda: _all_joined(clients, members))
        [leader] = {each.leader for each in joined}
        assert bench.step("sync", lambda: _synced(clients, members, leader, joined[0].generation_id)) == {0}
        found = bench.step("describe", lambda: described(bench.client, "crowd"))
        assert (found.group_state, len(found.members)) == ("Stable", MEMBERS)
        bench.step("join again", lambda: _all_joined(clients, members, metadata=b"1"))  # causes a rebalance
        leaving = tuple([MemberIdentity(member_id=member) for member in members])
        left = bench.step("leave", lambda: bench.client.call(LeaveGroupRequest(group_id="crowd", members=leaving)))
        assert {each.error_code for each in left.members} == {0}
        assert described(bench.client, "crowd").group_state == "Empty"
    finally:
        for client in clients:
            client.close()


@pytest.mark.parametrize(
    "bench", [{"group_initial_rebalance_delay_ms": 1000, "group_min_session_timeout_ms": 100}], indirect=True
)
def test_all_members_of_a_classic_group_are_given_up_at_once(bench):
    assert find(bench.client, "crowd") == 0
    clients = [RawClient(bench.broker.address) for _ in range(MEMBERS)]
    for client in clients:
        client.set_timeout(TIMEOUT_S)
    members = [client.call(_join("")).member_id for client in clients]
    joined = _all_joined(clients, members, session_timeout_ms=3000)
    [leader] = {each.leader for each in joined}
    assert _synced(clients, members, leader, joined[0].generation_id) == {0}
    for client in clients:
        client.close()
    bench.step("expire", lambda: bench.until(lambda: not described(bench.client, "crowd").members))


def _join(member_id, session_timeout_ms=60_000, metadata=b"0"):
    return JoinGroupRequest(
        group_id="crowd",
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=metadata * 300),),
    )


def _all_joined(clients, members, **options):
    """All members join one generation: a new group waits for more members, and a rebalance for all."""
    sent = [client.send(_join(member, **options)) for client, member in zip(clients, members, strict=True)]
    answers = [client.receive(each) for client, each in zip(clients, sent, strict=True)]
    assert {each.error_code for each in answers} == {0}
    assert len({each.generation_id for each in answers}) == 1
    return answers


def _synced(clients, members, leader, generation):
    """The leader sends its assignment last, when all others wait for it."""
    assigned = tuple([SyncGroupRequestAssignment(member_id=member, assignment=bytes(300)) for member in members])
    pairs = sorted(zip(clients, members, strict=True), key=lambda pair: pair[1] == leader)
    sent = [
        (
            client,
            client.send(
                SyncGroupRequest(
                    group_id="crowd",
                    generation_id=generation,
                    member_id=member,
                    protocol_type="consumer",
                    protocol_name="range",
                    assignments=assigned if member == leader else (),
                )
            ),
        )
        for client, member in pairs
    ]
    return {client.receive(each).error_code for client, each in sent}


@pytest.fixture
def groups(bench):
    """The names of very many groups, each with an offset."""
    names = tuple([f"group-{number}" for number in range(GROUPS)])
    assert find(bench.client, "g") == 0
    bench.client.create_topic("t")
    bench.step("commit", lambda: bench.many([offset_commit(name, 5) for name in names]))
    return names


def test_very_many_groups(bench, groups):
    client = bench.client
    filtered = ListGroupsRequest(states_filter=("Empty",), types_filter=("classic",))
    for request in (ListGroupsRequest(), filtered):
        assert len(bench.step("list", lambda request=request: client.call(request)).groups) == GROUPS
    asked = DescribeGroupsRequest(groups=groups, include_authorized_operations=True)
    assert {each.group_state for each in bench.step("describe", lambda: client.call(asked)).groups} == {"Empty"}
    fetched = OffsetFetchRequest(groups=tuple([OffsetFetchRequestGroup(group_id=name, topics=None) for name in groups]))
    answer = bench.step("fetch", lambda: client.call(fetched))
    assert {each.topics[0].partitions[0].committed_offset for each in answer.groups} == {5}
    deleted = bench.step("delete", lambda: client.call(DeleteGroupsRequest(groups_names=groups)))
    assert {each.error_code for each in deleted.results} == {0}


def test_very_many_groups_of_a_topic_that_is_deleted(bench, groups):
    bench.step("delete topic", lambda: delete_topic(bench.client, "t"))
    fetched = OffsetFetchRequest(groups=tuple([OffsetFetchRequestGroup(group_id=name, topics=None) for name in groups]))
    bench.step(
        "forget", lambda: bench.until(lambda: not any(each.topics for each in bench.client.call(fetched).groups))
    )


@pytest.mark.parametrize("bench", [{"offsets_retention_check_interval_ms": 2000}], indirect=True)
def test_very_many_groups_expire_at_once(bench, groups):
    bench.many([offset_commit(name, 1, retention_time_ms=1) for name in groups], version=4)
    bench.step("expire", lambda: bench.until(lambda: not bench.client.call(ListGroupsRequest()).groups))
    assert committed(bench.client, groups[0]) == {}


def test_very_many_offsets_in_one_commit(bench):
    """More than `max.message.bytes` of the offsets topic allows by default."""
    client, topics = bench.client, [f"w{number}" for number in range(WIDE)]
    assert find(client, "g") == 0
    assert client.call(FindCoordinatorRequest(key_type=1, coordinator_keys=("x",))).coordinators[0].error_code == 0
    for topic in topics:
        client.create_topic(topic, partitions=WIDE_PARTITIONS)
    bench.alter(TOPIC, "__consumer_offsets", "max.message.bytes", str(50 << 20))

    def committed_errors(request, kind, topic_kind, version, **fields):
        parts = tuple([kind(partition_index=index, committed_offset=7) for index in range(WIDE_PARTITIONS)])
        listed = tuple([topic_kind(name=name, partitions=parts) for name in topics])
        answer = client.call(request(group_id="g", topics=listed, **fields), version)
        return {part.error_code for topic in answer.topics for part in topic.partitions}

    plain = (OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic, 9)
    assert bench.step("commit", lambda: committed_errors(*plain, generation_id_or_member_epoch=-1)) == {0}
    assert len(bench.step("fetch", lambda: committed(client, "g"))) == WIDE * WIDE_PARTITIONS
    who = client.call(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000))
    producer = {"producer_id": who.producer_id, "producer_epoch": who.producer_epoch}
    kinds = (TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic, 5)
    sent = bench.step("send", lambda: committed_errors(*kinds, transactional_id="x", **producer))
    assert sent == {0}
    ended = bench.step("end", lambda: client.call(EndTxnRequest(transactional_id="x", committed=True, **producer)))
    assert ended.error_code == 0
    bench.step("delete topics", lambda: [delete_topic(client, topic) for topic in topics])
    bench.step("forget", lambda: bench.until(lambda: committed(client, "g") == {}))


@pytest.mark.parametrize("bench", [{"producer_id_expiration_check_interval_ms": 200}], indirect=True)
def test_very_many_producers_of_a_partition(bench):
    bench.client.create_topic("t", flush_messages=str(2**63 - 1))
    now_ms = int(time.time() * 1000)  # noqa: TID251 - the broker counts their age by the wall clock

    def produced(number):
        batch = batch_of(b"x", timestamp_ms=now_ms, producer_id=10**6 + number, producer_epoch=0, base_sequence=0)
        return produce_request("t", batch, acks=1)

    bench.step("produce", lambda: bench.many([produced(number) for number in range(PRODUCERS)]))
    assert bench.step("describe", lambda: _producers(bench)) == PRODUCERS
    bench.alter(BROKER, "", "producer.id.expiration.ms", "1")
    bench.step("expire", lambda: bench.until(lambda: not _producers(bench)))


def _producers(bench):
    topics = (ProducersOfTopic(name="t", partition_indexes=(0,)),)
    [topic] = bench.client.call(DescribeProducersRequest(topics=topics)).topics
    return len(topic.partitions[0].active_producers)


def test_very_many_segments_are_deleted_at_once(tmp_path):
    with ThreadBroker(f"lmdb://{tmp_path}/data", log_retention_check_interval_ms=200) as broker:
        bench = Bench(broker)
        with bench.client:
            unsynced = str(2**63 - 1)
            bench.client.create_topic("t", segment_ms="1", retention_ms="-1", flush_messages=unsynced)
            start_ms = 1_700_000_000_000
            batches = [batch_of(b"x", timestamp_ms=start_ms + 10 * number) for number in range(SEGMENTS)]
            bench.step("produce", lambda: bench.many([produce_request("t", batch, acks=1) for batch in batches]))
            [log] = [each for each in (tmp_path / "data").iterdir() if each.name.startswith("t-0")]
            assert len(list(log.glob("*.lmdb"))) == SEGMENTS
            bench.step("find", lambda: bench.client.end_offset("t", 0, start_ms + 10 * (SEGMENTS - 1)))
            bench.alter(TOPIC, "t", "retention.ms", "1")
            bench.step("delete", lambda: bench.until(lambda: bench.client.end_offset("t", 0, -2) >= SEGMENTS - 1))
            bench.step("unlink", lambda: bench.until(lambda: len(list(log.glob("*.lmdb"))) == 1))
        assert bench.held_up == {}
        assert bench.loop.long_turns == 0, bench.loop.last_stack
