"""Orderly shutdown: requests in flight are answered, waiting ones are woken, idle connections are closed."""

import pytest
from gateway_brokers import ThreadBroker, logged
from gateway_client import RawClient, assert_serves, batch_of, fetch_request, only, produce_request
from gateway_groups import described, find, join_request, joined

from odradek.wire.errors import ErrorCode
from odradek.wire.messages.api_versions import ApiVersionsRequest

FOREVER_MS = 2**31 - 1


@pytest.fixture
def broker(tmp_path, broker_log):
    running = ThreadBroker(f"lmdb://{tmp_path}/data", odradek_drain_timeout_ms=FOREVER_MS)
    running.start()
    yield running
    assert not logged(broker_log, 30, "drain timed out")


def test_a_broker_without_clients_stops(broker):
    broker.stop()
    with pytest.raises(ConnectionRefusedError):
        RawClient(broker.address)


def test_idle_clients_are_closed(broker):
    with RawClient(broker.address) as idle, RawClient(broker.address) as silent:
        idle.call(ApiVersionsRequest(), 0)
        broker.stop()
        assert idle.is_closed_by_broker()
        assert silent.is_closed_by_broker()


def test_produces_under_way_are_answered_and_then_the_connection_is_closed(broker):
    """There is no drain time-out, so the test would hang if a connection stayed open after its last answer."""
    with RawClient(broker.address) as client:
        client.create_topic("t")
        client.produce("t", batch_of(b"opens the log"))
        broker.env.hold()
        sent = [client.send(produce_request("t", batch_of(b"%d" % n))) for n in range(5)]
        broker.env.await_held()
        assert_serves(broker.address)
        broker.begin_stop()
        broker.env.release()
        assert [only(client.receive(one)).base_offset for one in sent] == list(range(1, 6))
        assert client.is_closed_by_broker()
        broker.join()
    broker.start()
    with RawClient(broker.address) as client:
        assert client.values("t") == [b"opens the log", *(b"%d" % n for n in range(5))]
    broker.stop()


def test_waiting_fetches_are_answered(broker):
    with RawClient(broker.address) as client:
        client.create_topic("t")
        fetched = client.send(fetch_request("t", [(0, 0)], max_wait_ms=FOREVER_MS))
        replica = broker.broker.services.replicas.get("t", 0)
        while not broker.in_trio(lambda: len(replica.watchers)):
            assert_serves(broker.address)
        broker.stop()
        [topic] = client.receive(fetched).responses
        assert topic.partitions[0].error_code == 0
        assert client.is_closed_by_broker()


def test_waiting_members_get_not_coordinator(broker):
    with RawClient(broker.address) as first, RawClient(broker.address) as second:
        first.create_topic("t")
        assert find(first, "g") == 0
        joined(first, "g")
        required = second.call(join_request("g"))
        waiting = second.send(join_request("g", required.member_id))
        while described(first, "g").group_state != "PreparingRebalance":
            pass
        broker.stop()
        assert second.receive(waiting).error_code == ErrorCode.NOT_COORDINATOR


def test_a_client_that_takes_no_answer_does_not_keep_the_broker(tmp_path, broker_log):
    with ThreadBroker(f"lmdb://{tmp_path}/data", odradek_drain_timeout_ms=200) as broker:
        with RawClient(broker.address) as client:
            client.create_topic("big")
            client.produce("big", batch_of(b"x" * 900_000))
        stuck = RawClient(broker.address, receive_buffer=4096)
        for _ in range(40):
            stuck.send(fetch_request("big", [(0, 0)]))
        replica = broker.broker.services.replicas.get("big", 0)
        while not broker.in_trio(lambda: replica.leases):
            assert_serves(broker.address)
        broker.begin_stop()
        broker.join()
        assert logged(broker_log, 30, "drain timed out", stuck.peer)
        stuck.close()
        broker.start()
