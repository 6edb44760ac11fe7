"""Heartbeats: the next answer reports every change of the group, in the order of the connection's requests."""

import time

import pytest
from gateway_brokers import ThreadBroker
from gateway_client import TIMEOUT_S, RawClient, batch_of, only, produce_request
from gateway_groups import delete_topic, described, find, join_request, joined, offset_commit

from odradek.wire.api_keys import ApiKey
from odradek.wire.errors import ErrorCode
from odradek.wire.headers import decode_response, encode_request
from odradek.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.wire.messages.heartbeat import HeartbeatRequest
from odradek.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

TIMES = 20
SESSION_MS = 1000


@pytest.fixture
def broker(tmp_path):
    settings = {"group_consumer_assignment_interval_ms": 0, "group_min_session_timeout_ms": SESSION_MS}
    with ThreadBroker(f"lmdb://{tmp_path}/data", **settings) as running:
        yield running


@pytest.fixture
def client(broker):
    with RawClient(broker.address) as connected:
        connected.create_topic("t")
        assert find(connected, "g") == 0
        yield connected


def stable_member(client, **fields):
    """The heartbeat of the only member of a stable group."""
    member = joined(client, "g", **fields)
    who = {"group_id": "g", "generation_id": member.generation_id, "member_id": member.member_id}
    given = (SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"all"),)
    spoken = {"protocol_type": "consumer", "protocol_name": "range"}
    assert client.call(SyncGroupRequest(**who, **spoken, assignments=given)).error_code == 0
    return HeartbeatRequest(**who)


def consumer_member(client, member="m", topics=("t",)):
    """The heartbeat of a member whose state has not changed."""
    wanted = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": topics, "topic_partitions": ()}
    joins = client.call(ConsumerGroupHeartbeatRequest(group_id="g", member_id=member, member_epoch=0, **wanted))
    assert joins.error_code == 0, joins
    return ConsumerGroupHeartbeatRequest(group_id="g", member_id=member, member_epoch=joins.member_epoch)


def test_changes_of_a_consumer_group_are_in_the_next_heartbeats_answer(broker, client):
    """Each heartbeat is decided anew, since a decision may depend on soft state, such as the metadata it has seen."""
    heartbeat = consumer_member(client)
    assert [client.call(heartbeat).error_code for _ in range(TIMES)] == [0] * TIMES
    with RawClient(broker.address) as other:
        wanted = (CreatePartitionsTopic(name="t", count=2, assignments=None),)
        other.call(CreatePartitionsRequest(topics=wanted, timeout_ms=9000))
        assert client.call(heartbeat).member_epoch == heartbeat.member_epoch + 1


def test_a_rebalance_is_in_the_next_heartbeats_answer(broker, client):
    heartbeat = stable_member(client)
    assert [client.call(heartbeat).error_code for _ in range(TIMES)] == [0] * TIMES
    with RawClient(broker.address) as other:
        named = other.call(join_request("g")).member_id
        other.send(join_request("g", named))
        while described(client, "g").group_state != "PreparingRebalance":
            pass
        assert [client.call(heartbeat).error_code for _ in range(3)] == [ErrorCode.REBALANCE_IN_PROGRESS] * 3


def test_a_removed_member_gets_the_error_with_its_next_heartbeat(broker, client):
    heartbeat = stable_member(client)
    assert [client.call(heartbeat).error_code for _ in range(TIMES)] == [0] * TIMES
    with RawClient(broker.address) as other:
        members = (MemberIdentity(member_id=heartbeat.member_id),)
        assert other.call(LeaveGroupRequest(group_id="g", members=members)).error_code == 0
    assert [client.call(heartbeat).error_code for _ in range(3)] == [ErrorCode.UNKNOWN_MEMBER_ID] * 3


def test_other_requests_in_between_are_answered_in_their_order(client):
    heartbeat = stable_member(client)
    for number in range(TIMES):
        assert client.call(heartbeat).error_code == 0
        assert client.call(heartbeat).error_code == 0
        assert client.produce("t", batch_of(b"%d" % number)).base_offset == number
    assert client.values("t") == [b"%d" % number for number in range(TIMES)]


def test_heartbeats_that_come_together_or_in_pieces_are_all_answered(client):
    heartbeat = stable_member(client)
    assert client.call(heartbeat).error_code == 0
    frames = [encode_request(heartbeat, 4, number, "raw") for number in range(6)]
    client.send_bytes(b"".join(frames[:3]))
    assert [answer(client) for _ in range(3)] == [(0, 0), (1, 0), (2, 0)]
    client.send_bytes(frames[3])
    assert answer(client) == (3, 0)
    client.send_bytes(frames[4][:10])
    client.send_bytes(frames[4][10:] + frames[5])
    assert [answer(client) for _ in range(2)] == [(4, 0), (5, 0)]


def test_a_repeated_heartbeat_does_not_overtake_a_produce(broker, client):
    heartbeat = stable_member(client)
    client.produce("t", batch_of(b"opens the log"))
    broker.env.hold()
    beat = encode_request(heartbeat, 4, 7, "raw")
    client.send_bytes(beat + encode_request(produce_request("t", batch_of(b"value")), 9, 8, "raw"))
    assert answer(client) == (7, 0)
    broker.env.await_held()
    client.send_bytes(beat)
    client.set_timeout(0.05)
    with pytest.raises(TimeoutError):
        client.receive_frame()
    client.set_timeout(TIMEOUT_S)
    broker.env.release()
    correlation, produced = decode_response(ApiKey.PRODUCE, 9, client.receive_frame())
    assert (correlation, only(produced).base_offset) == (8, 1)
    assert answer(client) == (7, 0)


def answer(client):
    """Correlation id and error of the next answer to a heartbeat."""
    correlation, response = decode_response(ApiKey.HEARTBEAT, 4, client.receive_frame())
    return correlation, response.error_code


def test_the_same_words_from_another_client_are_another_request(broker, client):
    heartbeat = stable_member(client)
    with RawClient(broker.address, client_id="other") as other:
        for each in (client, other, client, other):
            assert each.call(heartbeat).error_code == 0
            assert each.call(heartbeat, 0).error_code == 0
            assert each.call(heartbeat, 1).error_code == 0, "the same words, and another answer"


def test_an_answer_waits_for_what_is_not_on_disk_yet(broker, client):
    heartbeat = stable_member(client)
    assert [client.call(heartbeat).error_code for _ in range(TIMES)] == [0] * TIMES
    with RawClient(broker.address) as other:
        broker.env.hold()
        who = {"generation_id_or_member_epoch": heartbeat.generation_id, "member_id": heartbeat.member_id}
        committing = other.send(offset_commit("g", 1, **who))
        broker.env.await_held()
        beating = client.send(heartbeat)
        client.set_timeout(0.05)
        with pytest.raises(TimeoutError):
            client.receive_frame()
        client.set_timeout(TIMEOUT_S)
        broker.env.release()
        assert client.receive(beating).error_code == 0
        assert other.receive(committing).topics[0].partitions[0].error_code == 0


def test_a_member_that_repeats_itself_stays(broker, client):
    heartbeat = stable_member(client)
    assert client.call(heartbeat).error_code == 0
    first_ms = session_ends_ms(broker, heartbeat)
    for _ in range(TIMES):
        time.sleep(0.002)
        assert client.call(heartbeat).error_code == 0
    assert session_ends_ms(broker, heartbeat) > first_ms


def session_ends_ms(broker, heartbeat):
    """The time at which the member's session ends unless it sends a heartbeat."""
    groups = broker.broker.services.groups

    def look():
        shard = groups.runtime(groups.partition(heartbeat.group_id)).shard
        return shard.table.classic.groups[heartbeat.group_id].members[heartbeat.member_id].session.deadline_ms

    return broker.in_trio(look)


def test_a_member_that_falls_silent_is_given_up(client):
    heartbeat = stable_member(client, session_timeout_ms=SESSION_MS)
    for _ in range(TIMES):
        client.call(heartbeat)
    while described(client, "g").group_state != "Empty":
        pass
    assert client.call(heartbeat).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_drain_closes_connections_that_wait_for_the_next_heartbeat(broker, client):
    heartbeat = stable_member(client)
    assert [client.call(heartbeat).error_code for _ in range(TIMES)] == [0] * TIMES
    broker.begin_stop()
    assert client.is_closed_by_broker()
    broker.join()
    broker.start()


def test_a_heartbeat_after_the_topic_was_deleted_is_answered_as_a_first_one(broker, client):
    heartbeat = stable_member(client)
    assert [client.call(heartbeat).error_code for _ in range(TIMES)] == [0] * TIMES
    with RawClient(broker.address) as other:
        delete_topic(other, "__consumer_offsets")
    assert client.call(heartbeat).error_code == ErrorCode.NOT_COORDINATOR
