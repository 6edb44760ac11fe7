"""New connections are accepted no faster than `max.connection.creation.rate`."""

import logging
import math

from gateway_brokers import ThreadBroker, logged
from gateway_client import RawClient
from hypothesis import given
from hypothesis import strategies as st
from test_handlers_topics import alter

from odradek.gateway.server.connection_rate import ConnectionRate
from odradek.wire.messages.api_versions import ApiVersionsRequest


def test_a_second_s_connections_at_once_then_one_by_one():
    rate = ConnectionRate(0)
    assert [rate.wait_ms(4, 0) for _ in range(5)] == [0, 0, 0, 0, 250]
    assert [rate.wait_ms(4, 250), rate.wait_ms(4, 250)] == [0, 250]
    assert rate.wait_ms(0, 9_000) == math.inf
    assert rate.wait_ms(1, 9_500) == 500
    assert rate.wait_ms(1000, 9_501) == 0


@given(st.integers(1, 50), st.lists(st.integers(0, 2000), max_size=60))
def test_no_second_brings_more_than_twice_the_rate(per_second: int, pauses_ms: list[int]):
    """The burst of one second, and the connections accepted during the second."""
    rate, now_ms, taken = ConnectionRate(0), 0, list[int]()
    for pause_ms in pauses_ms:
        now_ms += pause_ms
        while rate.wait_ms(per_second, now_ms) == 0:
            taken.append(now_ms)
    for start in taken:
        assert sum(1 for at in taken if start <= at < start + 1000) <= 2 * per_second


def test_a_connection_too_many_waits_until_the_rate_allows_it(broker_log):
    with ThreadBroker() as broker, RawClient(broker.address) as first:
        alter(first, "max.connection.creation.rate", "0")
        with RawClient(broker.address) as second:
            sent = second.send(ApiVersionsRequest(), 0)
            while not logged(broker_log, logging.WARNING, second.peer, "max.connection.creation.rate"):
                first.call(ApiVersionsRequest(), 0)
            alter(first, "max.connection.creation.rate", "1000")
            assert second.receive(sent).error_code == 0


def test_a_broker_that_stops_does_not_keep_a_connection_that_waits(broker_log):
    with ThreadBroker() as broker:
        with RawClient(broker.address) as first:
            alter(first, "max.connection.creation.rate", "0")
            with RawClient(broker.address) as second:
                while not logged(broker_log, logging.WARNING, second.peer, "max.connection.creation.rate"):
                    first.call(ApiVersionsRequest(), 0)
                broker.begin_stop()
                broker.join()
                assert second.is_closed_by_broker()
        broker.start()
