"""Requests leave no reference cycles, so the broker can collect cycles rarely (`COLLECT_AFTER_OBJECTS`)."""

import gc
import weakref

import pytest
import trio
from gateway_brokers import ThreadBroker
from gateway_client import RawClient, batch_of, fetch_request, produce_request
from gateway_groups import commit_error, find, join_request, joined
from gateway_transactions import Transactional
from trio.testing import MockClock

from odradek.gateway.process import COLLECT_EVERY_S, WORTH_COLLECTING, collect_garbage
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.heartbeat import HeartbeatRequest
from odradek.wire.messages.list_transactions import ListTransactionsRequest
from odradek.wire.messages.metadata import MetadataRequest

REQUESTS = {
    "produce": produce_request("t", batch_of(b"value")),
    "refused produce": produce_request("t", b"no batch"),
    "fetch": fetch_request("t", [(0, 0)]),
    "heartbeat": HeartbeatRequest(group_id="g", generation_id=1, member_id="nobody"),
    "metadata": MetadataRequest(),
    "list by pattern": ListTransactionsRequest(transactional_id_pattern="(a|b)*c"),
    "list by what is no pattern": ListTransactionsRequest(transactional_id_pattern="("),
}
TIMES = 300


@pytest.fixture(scope="module")
def broker():
    with ThreadBroker() as running, RawClient(running.address) as client:
        client.create_topic("t")
        assert find(client, "g") == 0
        assert commit_error(client, "g", 1) == 0
        Transactional(client, "abac")
        yield running


@pytest.fixture
def without_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_requests_leave_nothing_to_the_garbage_collector(broker, without_collector, request_):
    with RawClient(broker.address) as client:
        client.call(request_)
        gc.collect()
        for _ in range(TIMES):
            client.call(request_)
    assert gc.collect() < TIMES


def test_neither_do_repeated_heartbeats(broker, without_collector):
    with RawClient(broker.address) as client:
        member = joined(client, "repeating")
        heartbeat = HeartbeatRequest(
            group_id="repeating", generation_id=member.generation_id, member_id=member.member_id
        )
        assert client.call(heartbeat).error_code == 0
        gc.collect()
        for _ in range(TIMES):
            client.call(heartbeat)
            client.call(MetadataRequest())
            client.call(heartbeat)
    assert gc.collect() < TIMES


def test_neither_do_members_that_join(broker, without_collector):
    with RawClient(broker.address) as client:
        first = joined(client, "joining").member_id
        gc.collect()
        for _ in range(TIMES):
            assert client.call(join_request("joining", first), 3).error_code == 0
    assert gc.collect() < TIMES


def test_neither_do_connections(broker, without_collector):
    for _ in range(TIMES):
        with RawClient(broker.address) as client:
            client.call(ApiVersionsRequest(), 0)
    assert gc.collect() < TIMES


def test_cycles_that_there_are_all_the_same_are_soon_found(without_collector):
    class Knot:
        pass

    def tie():
        knot = Knot()
        knot.itself = knot
        return weakref.ref(knot)

    async def wait():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(collect_garbage)
            tied = [tie() for _ in range(WORTH_COLLECTING)]
            await trio.sleep(COLLECT_EVERY_S * 1.5)
            nursery.cancel_scope.cancel()
        return sum(each() is not None for each in tied)

    assert trio.run(wait, clock=MockClock(autojump_threshold=0)) == 0
