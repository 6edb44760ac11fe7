"""JoinGroup and SyncGroup are answered by the call that decides; no task of their connection waits."""

import logging
from dataclasses import replace

import pytest
from gateway_brokers import ThreadBroker, internal_errors
from gateway_client import TIMEOUT_S, RawClient, batch_of, only, produce_request
from gateway_groups import described, find, join_request, joined

from odradek.wire.errors import ErrorCode
from odradek.wire.messages.join_group import JoinGroupRequestProtocol
from odradek.wire.messages.metadata import MetadataRequest
from odradek.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

MB = 1 << 20
WITHOUT_MEMBER_ID_REQUIRED = 3
"""The last version of JoinGroup without MEMBER_ID_REQUIRED: the first answer has the member id."""


@pytest.fixture
def broker_log(caplog):
    caplog.set_level(logging.INFO, "odradek")
    yield caplog
    assert internal_errors(caplog.records) == []


@pytest.fixture
def broker(broker_log):
    with ThreadBroker() as running:
        yield running


@pytest.fixture
def leader(broker):
    """The first member of group g."""
    with RawClient(broker.address) as client:
        client.create_topic("t")
        assert find(client, "g") == 0
        yield client


@pytest.fixture
def observer(broker):
    with RawClient(broker.address) as client:
        yield client


def join(client, **fields):
    """Requests to join; the reply waits for the first member to join again."""
    return client.send(join_request("g", **fields), WITHOUT_MEMBER_ID_REQUIRED)


def await_members(observer, count):
    while len(described(observer, "g").members) < count:
        pass


def hears_nothing(client):
    client.set_timeout(0.05)
    with pytest.raises(TimeoutError):
        client.receive_frame()
    client.set_timeout(TIMEOUT_S)
    return True


def test_whatever_follows_a_join_waits_for_its_reply(broker, leader, observer):
    first = joined(leader, "g").member_id
    with RawClient(broker.address) as client:
        joining = join(client)
        producing = client.send(produce_request("t", batch_of(b"value")))
        asking = client.send(MetadataRequest(topics=()))
        await_members(observer, 2)
        assert hears_nothing(client)
        assert observer.values("t") == [], "a produce is no exception"
        again = leader.send(join_request("g", first), WITHOUT_MEMBER_ID_REQUIRED)
        assert client.receive(joining).error_code == 0
        assert only(client.receive(producing)).base_offset == 0
        assert client.receive(asking).brokers
        assert len(leader.receive(again).members) == 2


def test_a_join_waits_for_the_produces_before_it(broker, leader):
    leader.produce("t", batch_of(b"opens the log"))
    broker.env.hold()
    producing = leader.send(produce_request("t", batch_of(b"value")))
    joining = join(leader)
    broker.env.await_held()
    assert hears_nothing(leader)
    broker.env.release()
    assert only(leader.receive(producing)).base_offset == 1
    assert leader.receive(joining).error_code == 0


def test_a_closed_connection_is_dropped_and_delays_no_other(broker, leader, observer):
    first = joined(leader, "g").member_id
    with RawClient(broker.address) as staying:
        leaving = RawClient(broker.address)
        join(leaving)
        joining = join(staying)
        await_members(observer, 3)
        assert waiting(broker) == 2
        leaving.reset()
        while waiting(broker) == 2:
            pass
        again = leader.send(join_request("g", first), WITHOUT_MEMBER_ID_REQUIRED)
        assert staying.receive(joining).error_code == 0
        assert len(leader.receive(again).members) == 3, "as in Kafka, a member stays until its session ends"
    assert waiting(broker) == 0


def waiting(broker):
    """The number of replies that the group's shard has yet to send."""
    groups = broker.broker.services.groups
    return broker.in_trio(lambda: len(groups.runtime(groups.partition("g")).replies))


def test_a_reply_that_the_network_takes_slowly_arrives_whole(broker, observer):
    """The connection's second task sends the rest of it, and starts then; later requests are answered after it."""
    sizes = [MB, MB, MB]
    with RawClient(broker.address, receive_buffer=4096) as leader:
        assert find(leader, "g") == 0
        first = joined(leader, "g").member_id
        others = [RawClient(broker.address) for _ in sizes]
        joining = [
            other.send(with_metadata(join_request("g"), size), WITHOUT_MEMBER_ID_REQUIRED)
            for other, size in zip(others, sizes, strict=True)
        ]
        await_members(observer, 1 + len(sizes))
        again = leader.send(join_request("g", first), WITHOUT_MEMBER_ID_REQUIRED)
        asking = leader.send(MetadataRequest(topics=()))
        for other, sent in zip(others, joining, strict=True):
            assert other.receive(sent).error_code == 0
            other.close()
        answer = leader.receive(again)
        assert sorted(len(member.metadata) for member in answer.members) == [len(b"meta"), *sizes]
        assert leader.receive(asking).brokers


def with_metadata(request, size):
    return replace(request, protocols=(JoinGroupRequestProtocol(name="range", metadata=bytes(size)),))


def given_everything(client, member):
    """Assigns everything to the first member; returns the error."""
    given = (SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"all"),)
    who = {"group_id": "g", "generation_id": member.generation_id, "member_id": member.member_id}
    return client.call(SyncGroupRequest(**who, assignments=given), WITHOUT_MEMBER_ID_REQUIRED).error_code


def test_a_sync_is_answered_when_the_leaders_is_on_disk(broker, leader, observer):
    first = joined(leader, "g").member_id
    with RawClient(broker.address) as client:
        joining = join(client)
        await_members(observer, 2)
        again = leader.receive(leader.send(join_request("g", first), WITHOUT_MEMBER_ID_REQUIRED))
        other = client.receive(joining)
        who = {"group_id": "g", "generation_id": other.generation_id, "member_id": other.member_id}
        syncing = client.send(SyncGroupRequest(**who), WITHOUT_MEMBER_ID_REQUIRED)
        broker.env.hold()
        given = (SyncGroupRequestAssignment(member_id=other.member_id, assignment=b"half"),)
        leads = {"group_id": "g", "generation_id": again.generation_id, "member_id": first}
        handing_in = leader.send(SyncGroupRequest(**leads, assignments=given), WITHOUT_MEMBER_ID_REQUIRED)
        broker.env.await_held()
        assert hears_nothing(client)
        assert hears_nothing(leader)
        broker.env.release()
        assert leader.receive(handing_in).assignment == b""
        assert client.receive(syncing).assignment == b"half"


def test_when_the_write_fails_all_waiting_members_get_an_error(broker, leader, observer):
    first = joined(leader, "g").member_id
    with RawClient(broker.address) as client:
        joining = join(client)
        await_members(observer, 2)
        again = leader.receive(leader.send(join_request("g", first), WITHOUT_MEMBER_ID_REQUIRED))
        other = client.receive(joining)
        who = {"group_id": "g", "generation_id": other.generation_id, "member_id": other.member_id}
        syncing = client.send(SyncGroupRequest(**who), WITHOUT_MEMBER_ID_REQUIRED)
        while waiting(broker) < 1:
            pass
        broker.env.fail_next_write()
        assert given_everything(leader, again) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert client.receive(syncing).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert waiting(broker) == 0


def test_a_broker_that_stops_answers_waiting_members(broker, leader, observer):
    joined(leader, "g")
    with RawClient(broker.address) as client:
        joining = join(client)
        await_members(observer, 2)
        broker.begin_stop()
        assert client.receive(joining).error_code == ErrorCode.NOT_COORDINATOR
        assert client.is_closed_by_broker()
        broker.join()
        broker.start()
