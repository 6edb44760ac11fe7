"""The memory of unfinished requests is bounded (queued.max.request.bytes), and no client waits forever for it."""

import logging
from concurrent.futures import ThreadPoolExecutor

import trio
from gateway_brokers import ThreadBroker, logged
from gateway_client import RawClient, assert_serves, batch_of, fetch_request, only, produce_request

from odradek.gateway.env.repeats import Repeats
from odradek.gateway.env.request_memory import RequestMemory
from odradek.wire.api_keys import ApiKey
from odradek.wire.headers import encode_request

MB = 1 << 20
FOREVER_MS = 2**31 - 1
PRODUCE_VERSION = 12


def halves(topic, size_bytes, partition=0):
    """A produce request in two parts; the first part is large enough for a buffer of its own."""
    request = produce_request(topic, batch_of(b"v" * size_bytes), partition)
    frame = encode_request(request, PRODUCE_VERSION, 1, "raw")
    return frame[: len(frame) // 2], frame[len(frame) // 2 :]


def taken_bytes(broker):
    return broker.in_trio(lambda: broker.broker.services.request_memory.taken_bytes)


def waits_until(broker, condition):
    """Polls until the condition holds; only a failing test polls forever."""
    while not condition(taken_bytes(broker)):
        pass


def answer_of(client):
    return only(client.receive((ApiKey.PRODUCE, PRODUCE_VERSION, 1)))


def finish(client, rest):
    client.send_bytes(rest)
    return answer_of(client).error_code


def at_once(call, clients):
    """Calls `call` for each client, each in its own thread; returns the results."""
    with ThreadPoolExecutor(len(clients)) as pool:
        return list(pool.map(call, clients))


def test_requests_that_come_slowly_take_no_more_than_the_limit(broker_log):
    """Twenty half-sent requests: some continue, the others wait, and finally all are answered."""
    with ThreadBroker(queued_max_request_bytes=4_000_000, socket_request_max_bytes=2 * MB) as broker:
        clients = [RawClient(broker.address) for _ in range(20)]
        clients[0].create_topic("t")
        first, second = halves("t", MB - 1000)
        for client in clients:
            client.send_bytes(first)
        waits_until(broker, lambda taken: taken >= 4_000_000)
        assert taken_bytes(broker) < 4_000_000 + 2 * MB + 20 * 65_536
        assert at_once(lambda client: finish(client, second), clients) == [0] * 20
        waits_until(broker, lambda taken: taken == 0)
        lines = [record for record in broker_log.records if "queued.max.request.bytes=4000000" in record.getMessage()]
        assert len(lines) == 1
        for client in clients:
            client.close()
        assert_serves(broker.address)


def test_one_as_large_as_the_limit_is_served(broker_log):
    with (
        ThreadBroker(queued_max_request_bytes=MB, socket_request_max_bytes=MB) as broker,
        RawClient(broker.address) as client,
    ):
        client.create_topic("t")
        first, second = halves("t", MB - 1000)
        client.send_bytes(first)
        client.send_bytes(second)
        assert answer_of(client).error_code == 0


def test_long_polls_do_not_keep_out_what_they_wait_for(broker_log):
    """The bytes of requests that may wait for another client do not count while they wait."""
    partitions = 5000
    with (
        ThreadBroker(queued_max_request_bytes=200_000, socket_request_max_bytes=200_000) as broker,
        RawClient(broker.address) as client,
    ):
        client.create_topic("t", partitions=partitions)
        polls = [RawClient(broker.address) for _ in range(4)]
        request = fetch_request("t", [(n, 0) for n in range(partitions)], max_wait_ms=FOREVER_MS)
        sent = [poll.send(request) for poll in polls]
        first, second = halves("t", 150_000, 7)
        client.send_bytes(first)
        client.send_bytes(second)
        assert answer_of(client).error_code == 0
        for poll, one in zip(polls, sent, strict=True):
            [answered] = poll.receive(one).responses
            assert answered.partitions[7].high_watermark == 1
            poll.close()


def test_one_that_stops_in_its_middle_while_others_wait_is_closed(broker_log):
    with (
        ThreadBroker(
            queued_max_request_bytes=MB, socket_request_max_bytes=MB, odradek_connection_write_timeout_ms=300
        ) as broker,
        RawClient(broker.address) as stopped,
        RawClient(broker.address) as waiting,
    ):
        waiting.create_topic("t")
        stopped.send_bytes(halves("t", MB - 1000)[0])
        waits_until(broker, lambda taken: taken > MB // 4)
        for part in halves("t", MB // 2):
            waiting.send_bytes(part)
        stopped.set_timeout(30)
        taken = broker.broker.services.request_memory
        broker.in_trio(lambda: taken.take(MB))  # as if a second request were being handled
        assert stopped.is_closed_by_broker()
        broker.in_trio(lambda: taken.give_back(MB))
        assert answer_of(waiting).error_code == 0
        assert logged(broker_log, logging.INFO, stopped.peer, "queued.max.request.bytes")


def test_a_broker_that_stops_closes_connections_that_are_held_back(broker_log):
    with ThreadBroker() as broker, RawClient(broker.address) as waiting:
        assert_serves(broker.address)
        memory = broker.broker.services.request_memory
        broker.in_trio(lambda: memory.take(1 << 40))
        waiting.send_bytes(b"\0\0\0\1")
        broker.begin_stop()
        broker.join()
        assert waiting.is_closed_by_broker()
        broker.start()


def test_what_eighty_large_requests_take_together_is_bounded(broker_log, tmp_path):
    """They send 4 MB each at once, 320 MB where 16 are allowed; all are answered, and nothing acknowledged is lost."""
    config = {"queued_max_request_bytes": 16 * MB, "socket_request_max_bytes": 8 * MB}
    with ThreadBroker(f"lmdb://{tmp_path}/data", **config) as broker, RawClient(broker.address) as client:
        client.create_topic("t", max_message_bytes=str(8 * MB))
        assert client.produce("t", batch_of(b"opens"), 0).error_code == 0
        request = b"".join(halves("t", 4 * MB - 1000))
        most = 0

        def send(sender):
            nonlocal most
            sender.set_timeout(100)
            error = finish(sender, request)
            most = max(most, taken_bytes(broker))
            return error

        senders = [RawClient(broker.address) for _ in range(80)]
        assert at_once(send, senders) == [0] * 80
        for sender in senders:
            sender.close()
        assert most < 16 * MB + 4 * MB + 80 * 65_536
        assert client.fetch("t", 81, max_wait_ms=0).high_watermark == 81


async def test_waiting_callers_come_in_the_order_of_asking(autojump_clock: trio.testing.MockClock) -> None:
    memory = RequestMemory(10, Repeats())
    memory.take(10)
    came: list[int] = []

    async def ask(number: int) -> None:
        await trio.sleep(number)
        await memory.room(number)
        came.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(ask, number)
        await trio.sleep(50)
        assert came == []
        memory.give_back(10)
    assert came == [0, 1, 2, 3, 4]


async def test_the_oldest_request_begun_may_go_on_and_then_the_next(autojump_clock: trio.testing.MockClock) -> None:
    memory = RequestMemory(10, Repeats())
    came: list[str] = []

    async def ask(name: str) -> None:
        await memory.room(name)
        came.append(name)

    for name in ("first", "second"):
        memory.grow(name, 10)
    async with trio.open_nursery() as nursery:
        for name in ("small", "second", "first"):
            nursery.start_soon(ask, name)
            await trio.sleep(1)
        assert came == ["first"]
        memory.end("first")
        await trio.sleep(1)
        assert came == ["first"], "the first one is being handled"
        memory.give_back(10)
        await trio.sleep(1)
        assert came == ["first", "second"]
        memory.end("second")
        memory.give_back(10)
    assert came == ["first", "second", "small"]


async def test_a_cancelled_caller_passes_its_turn_on(autojump_clock: trio.testing.MockClock) -> None:
    memory = RequestMemory(10, Repeats())
    memory.take(10)
    came: list[str] = []

    async def ask(name: str, scope: trio.CancelScope) -> None:
        with scope:
            await memory.room(name)
            came.append(name)

    cancelled, other = trio.CancelScope(), trio.CancelScope()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, "cancelled", cancelled)
        await trio.sleep(1)
        nursery.start_soon(ask, "other", other)
        await trio.sleep(1)
        memory.give_back(10)
        cancelled.cancel()
        await trio.sleep(1)
    assert "other" in came
