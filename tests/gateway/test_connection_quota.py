"""Which connections share `max.connections`, and which are accepted beyond it: several listeners, as in Kafka."""

import logging
from dataclasses import dataclass

import pytest
from gateway_brokers import ThreadBroker, free_port, logged
from gateway_client import RawClient
from test_handlers_topics import alter

from odradek.gateway.server.connection_quota import ConnectionQuota
from odradek.wire.messages.api_versions import ApiVersionsRequest


@dataclass(eq=False)
class Open:
    listener: str
    idle: int = 0
    peer_host: str = "host"
    is_closed: bool = False

    def idle_ms(self, now_ms):
        return now_ms + self.idle


def test_connections_are_counted_in_total_and_per_address():
    quota = ConnectionQuota(None, 0)
    first, second, third = Open("A"), Open("B"), Open("B", peer_host="other")
    for each in (first, second, third):
        assert quota.has_room(each.listener, 3)
        quota.add(each)
    assert not quota.has_room("A", 3)
    quota.remove(second)
    assert quota.has_room("A", 3)
    assert [quota.from_host(host) for host in ("host", "other", "third")] == [1, 1, 0]


def test_those_that_were_idle_longest_are_in_excess_except_the_protected_ones():
    quota = ConnectionQuota("A", 0)
    protected, quick, slow, closed = Open("A", idle=9), Open("B", idle=1), Open("B", idle=5), Open("B", is_closed=True)
    for each in (protected, quick, slow, closed):
        quota.add(each)
    assert quota.excess(4, 0) == []
    assert quota.excess(3, 0) == [], "one is closed already"
    assert quota.excess(2, 0) == [slow]
    assert quota.excess(0, 0) == [slow, quick]


@pytest.fixture
def ports():
    """The ports of the listener between brokers, of two others, and of the controllers'."""
    return [free_port() for _ in range(4)]


def brokers_with(ports, **config):
    between, one, two, controllers = ports
    return ThreadBroker(
        listeners=",".join(
            f"{name}://127.0.0.1:{port}" for name, port in zip("ABCD", (between, one, two, controllers), strict=True)
        ),
        listener_security_protocol_map="A:PLAINTEXT,B:PLAINTEXT,C:PLAINTEXT,D:PLAINTEXT",
        inter_broker_listener_name="A",
        process_roles="broker,controller",
        controller_listener_names="D",
        controller_quorum_voters=f"1@127.0.0.1:{controllers}",
        **config,
    )


def client_of(port):
    return RawClient(("127.0.0.1", port))


def is_served(client):
    return client.call(ApiVersionsRequest(), 0).error_code == 0


def test_a_connection_between_brokers_closes_the_client_that_was_idle_longest(broker_log, ports):
    with brokers_with(ports, max_connections=1), client_of(ports[1]) as first:
        assert is_served(first)
        with client_of(ports[2]) as waiting:
            sent = waiting.send(ApiVersionsRequest(), 0)
            while not logged(broker_log, logging.WARNING, waiting.peer, "1 connections are open (max.connections)"):
                assert is_served(first)
            with client_of(ports[0]) as peer:
                assert is_served(peer)
                assert first.is_closed_by_broker()
                assert logged(broker_log, logging.WARNING, first.peer, "idle longest (max.connections)")
                with client_of(ports[0]) as another:
                    assert is_served(another)
                    assert is_served(peer)
            assert waiting.receive(sent).error_code == 0


def test_listeners_do_not_exceed_the_limit_together(broker_log, ports):
    """Both connections wait for the rate while there is room for one of them."""
    with brokers_with(ports, max_connections=2, max_connection_creation_rate=0), client_of(ports[0]) as peer:
        assert is_served(peer), "the rate does not apply between brokers"
        with client_of(ports[1]) as one, client_of(ports[2]) as two:
            sent = [client.send(ApiVersionsRequest(), 0) for client in (one, two)]
            while not logged(broker_log, logging.WARNING, "(max.connection.creation.rate)"):
                assert is_served(peer)
            alter(peer, "max.connection.creation.rate", "1000")
            while not logged(broker_log, logging.WARNING, "2 connections are open (max.connections)"):
                assert is_served(peer)
            peer.close()
            assert [client.receive(request).error_code for client, request in zip((one, two), sent, strict=True)] == [
                0,
                0,
            ]


def test_controllers_do_not_wait_for_clients(ports):
    with brokers_with(ports, max_connections=1), client_of(ports[1]) as first, client_of(ports[3]) as controller:
        assert is_served(first)
        assert is_served(controller)
        assert is_served(first)


def test_a_limit_that_is_lowered_closes_connections(broker_log, ports):
    with (
        brokers_with(ports, connections_max_idle_ms=60_000, odradek_connection_write_timeout_ms=400),
        client_of(ports[1]) as one,
        client_of(ports[2]) as two,
        client_of(ports[0]) as peer,
    ):
        assert is_served(one)
        assert is_served(two)
        alter(peer, "max.connections", "1")
        assert one.is_closed_by_broker()
        assert two.is_closed_by_broker()
        assert is_served(peer)
