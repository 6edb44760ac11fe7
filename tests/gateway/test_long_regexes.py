"""Clients' regular expressions are matched outside the event loop, with bounded work, once per metadata image."""

import random
import threading

import pytest
from gateway_brokers import ThreadBroker, internal_errors
from gateway_client import RawClient, batch_of, only, produce_request
from gateway_groups import find

from odradek.coordinator.groups.consumer import resolver
from odradek.coordinator.transactions import describe
from odradek.gateway.server.driver import ConnectionDriver
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.list_transactions import ListTransactionsRequest

SLOW = ".*a.{200}"
SLOWER = "(.*a.{230}){20}"
TOPICS = 300
TIMEOUT_S = 30


def _joining(regex, member, group):
    return ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        topic_partitions=(),
        subscribed_topic_regex=regex,
    )


def _join(client, regex, member="m", group="g"):
    return client.call(_joining(regex, member, group))


def _again(client, epoch, member="m", group="g"):
    return client.call(ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch))


def _assigned(client, epoch):
    """Sends heartbeats until partitions are assigned, since matching runs in the background."""
    while True:
        answer = _again(client, epoch)
        assert answer.error_code == 0, answer
        epoch = answer.member_epoch
        if answer.assignment is not None and answer.assignment.topic_partitions:
            return answer


@pytest.fixture(scope="module")
def broker():
    chance = random.Random(1)
    with ThreadBroker(group_consumer_assignment_interval_ms=0) as running, RawClient(running.address) as client:
        names = ["".join(chance.choices("ab", k=240)) + str(number) for number in range(TOPICS)]
        topics = tuple(CreatableTopic(name=name, num_partitions=1, replication_factor=-1) for name in names)
        assert {each.error_code for each in client.call(CreateTopicsRequest(topics=topics)).topics} == {0}
        client.create_topic("t")
        assert find(client, "g") == 0
        for number in range(3):
            name = "".join(chance.choices("ab", k=20_000)) + str(number)
            assert client.call(FindCoordinatorRequest(key_type=1, coordinator_keys=(name,))).coordinators
            answer = client.call(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000))
            assert answer.error_code == 0
        yield running


@pytest.fixture
def client(broker):
    with RawClient(broker.address) as connected:
        yield connected


@pytest.fixture
def gate():
    """An event that blocks its waiters until the test sets it or ends."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def matched(monkeypatch):
    """(expression, thread) of each matching of topic names."""
    calls, real = [], resolver.matching_topics

    def noted(regex, image):
        calls.append((regex, threading.current_thread()))
        return real(regex, image)

    monkeypatch.setattr(resolver, "matching_topics", noted)
    return calls


def test_an_expression_that_takes_too_much_work_is_refused_and_delays_no_request(broker, client):
    before = broker.broker.services.loop.long_turns
    for regex in (SLOW, SLOWER):
        refused = _join(client, regex)
        assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
        assert "too many steps" in refused.error_message
        answer = client.call(ListTransactionsRequest(transactional_id_pattern=regex))
        assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert broker.broker.services.loop.long_turns == before, broker.broker.services.loop.last_stack


def test_names_are_matched_beside_the_loop_and_once_for_each_metadata(broker, client, matched):
    for member in ("a", "b", "c"):
        assert _join(client, "t|u", member, "once").error_code == 0
    assert [regex for regex, _ in matched] == ["t|u"]
    assert broker.in_trio(threading.current_thread) not in {thread for _, thread in matched}


def test_a_subscription_by_expression_is_resolved(client):
    joined = _join(client, "t|nothing")
    assert joined.error_code == 0
    assert len(_assigned(client, joined.member_epoch).assignment.topic_partitions) == 1


def test_other_refusals_come_before_that_of_the_expression(client):
    request = ConsumerGroupHeartbeatRequest(group_id="none", member_id="x", member_epoch=7, subscribed_topic_regex="(")
    assert client.call(request).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert _join(client, "(", "x").error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_commits_go_on_while_expressions_are_matched(broker, client, monkeypatch, gate):
    begun, real = threading.Semaphore(0), describe.matching

    def held(*arguments):
        begun.release()
        assert gate.wait(TIMEOUT_S)
        return real(*arguments)

    monkeypatch.setattr("odradek.gateway.handlers.list_transactions.matching", held)
    asking = [RawClient(broker.address) for _ in range(20)]
    sent = [each.send(ListTransactionsRequest(transactional_id_pattern="a.*")) for each in asking]
    assert begun.acquire(timeout=TIMEOUT_S)
    client.create_topic("synced", flush_messages="1")
    assert only(client.call(produce_request("synced", batch_of(b"x")))).error_code == 0
    gate.set()
    assert {each.receive(one).error_code for each, one in zip(asking, sent, strict=True)} == {0}
    for each in asking:
        each.close()


def test_a_client_that_leaves_gives_up_what_has_not_begun(broker, broker_log, monkeypatch, matched, gate):
    begun, noted = threading.Semaphore(0), resolver.matching_topics

    def held(regex, image):
        begun.release()
        assert gate.wait(TIMEOUT_S)
        return noted(regex, image)

    monkeypatch.setattr(resolver, "matching_topics", held)
    connections, start = [], ConnectionDriver.start

    def noted_start(self):
        connections.append(self)
        start(self)

    monkeypatch.setattr(ConnectionDriver, "start", noted_start)
    with RawClient(broker.address) as first, RawClient(broker.address) as staying:
        waiting = first.send(_joining("first", "m", "g2"))
        assert begun.acquire(timeout=TIMEOUT_S)
        leaving = RawClient(broker.address)
        assert leaving.call(ListTransactionsRequest()).error_code == 0
        leaving.send(_joining("leaving", "n", "g2"))
        assert staying.call(ListTransactionsRequest()).error_code == 0
        [connection] = [each for each in connections if each.transport.peer == leaving.peer]
        broker.in_trio(connection.close)  # the connection breaks now
        leaving.close()
        gate.set()
        first.receive(waiting)
        assert _join(staying, "last", "m", "g3").error_code == 0
    assert [regex for regex, _ in matched] == ["first", "last"]
    assert internal_errors(broker_log.records) == []
