"""The requirements on a network, tested with TCP and with the simulation's network in memory."""

import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NoReturn

import pytest
import trio
import trio.testing

from odradek.facilities import has
from odradek.gateway.env.environment import ProductionEnvironment
from odradek.gateway.net.poller import Poller
from odradek.gateway.net.transport import Listener, Transport, dial_tcp, listen_tcp
from odradek.gateway.testing.simulation import MemoryNetwork, NetworkFaults
from odradek.gateway.testing.simulation.poller import MemoryPoller

HOST = "127.0.0.1"


class Tcp:
    def poller(self) -> Poller[str]:
        return ProductionEnvironment().poller()

    async def listen(self, host: str, port: int) -> Sequence[Listener]:
        return await listen_tcp(host, port)

    async def dial(self, host: str, port: int) -> Transport:
        return await dial_tcp(host, port)


class Memory:
    def __init__(self, faults: NetworkFaults) -> None:
        self.network = MemoryNetwork(random.Random(0), faults)

    def poller(self) -> Poller[str]:
        return MemoryPoller()

    async def listen(self, host: str, port: int) -> Sequence[Listener]:
        return self.network.listen(host, port)

    async def dial(self, host: str, port: int) -> Transport:
        return await self.network.dial(HOST, host, port)


Network = Tcp | Memory
NETWORKS: dict[str, Callable[[], Network]] = {
    "tcp": Tcp,
    "memory": lambda: Memory(NetworkFaults()),
    "memory with delays and splits": lambda: Memory(NetworkFaults(delay_ms=(0.1, 2.0), partial=0.5)),
}


@pytest.fixture(params=NETWORKS)
def network(request: pytest.FixtureRequest) -> Network:
    return NETWORKS[request.param]()


@asynccontextmanager
async def connected(network: Network) -> AsyncIterator[tuple[Transport, Transport]]:
    """Two ends of a connection, the dialling end first."""
    [listener] = await network.listen(HOST, 0)
    there: list[Transport] = []

    async def accept() -> None:
        there.append(await listener.accept())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(accept)
        here = await network.dial(*listener.address)
    try:
        yield here, there[0]
    finally:
        here.close()
        there[0].close()
        listener.close()


async def receive_exactly(transport: Transport, size: int) -> bytes:
    data = bytearray(size)
    view, done = memoryview(data), 0
    while done < size:
        got = await transport.receive_into(view[done:])
        assert got, f"the peer finished after {done} of {size} bytes"
        done += got
    return bytes(data)


async def test_bytes_come_in_order_both_ways(network):
    async with connected(network) as (here, there):
        for number in range(20):
            await here.send_parts([b"ping", str(number).encode()])
            assert await receive_exactly(there, 4 + len(str(number))) == b"ping%d" % number
            await there.send_parts([b"pong"])
            assert await receive_exactly(here, 4) == b"pong"


async def test_a_receive_may_get_part_of_a_send_and_never_more_than_its_buffer(network):
    async with connected(network) as (here, there):
        await here.send_parts([b"abcdefgh"])
        seen = b""
        while len(seen) < 8:
            buffer = bytearray(5)
            got = await there.receive_into(memoryview(buffer)[:3])
            assert 1 <= got <= 3
            assert buffer[got:] == bytes(5 - got)
            seen += buffer[:got]
        assert seen == b"abcdefgh"


async def test_parts_of_every_kind_and_number_arrive_as_one_stream(network):
    parts = [b"", bytearray(b"x"), memoryview(b"yz"), *[b"%04d" % number for number in range(2000)], b""]
    async with connected(network) as (here, there), trio.open_nursery() as nursery:
        nursery.start_soon(here.send_parts, parts)
        assert await receive_exactly(there, 3 + 8000) == b"".join(parts)


async def test_nothing_to_send_is_no_error(network):
    async with connected(network) as (here, there):
        await here.send_parts([])
        await here.send_parts([b""])
        await here.send_parts([b"!"])
        assert await receive_exactly(there, 1) == b"!"


async def test_what_is_not_taken_at_once_is_left_over(network):
    data = random.Random(2).randbytes(20_000_000)
    async with connected(network) as (here, there), trio.open_nursery() as nursery:
        for number in range(200):
            left = here.send_now([b"%03d" % number, b"", memoryview(b"x")])
            assert b"".join(left) in {b"", b"%03dx" % number}
            await here.send_parts(left)
            assert await receive_exactly(there, 4) == b"%03dx" % number
        left = here.send_now([data[:7], data[7:]])
        assert 0 < sum(map(len, left)) <= len(data)
        nursery.start_soon(here.send_parts, left)
        assert await receive_exactly(there, len(data)) == data


async def test_sending_now_is_refused_after_close(network):
    async with connected(network) as (here, _):
        here.close()
        with pytest.raises(OSError):  # noqa: PT011
            here.send_now([b"x"])


async def test_a_big_send_arrives_whole_while_it_is_read(network):
    data = random.Random(1).randbytes(3_000_000)
    async with connected(network) as (here, there), trio.open_nursery() as nursery:
        nursery.start_soon(here.send_parts, [data[:7], data[7:2_000_000], data[2_000_000:]])
        assert await receive_exactly(there, len(data)) == data


async def test_a_reader_that_does_not_read_holds_up_its_writer(network):
    finished: list[bool] = []

    async def send(transport: Transport) -> None:
        await transport.send_parts([bytes(64_000_000)])
        finished.append(True)

    async with connected(network) as (here, there), trio.open_nursery() as nursery:
        nursery.start_soon(send, here)
        await receive_exactly(there, 100_000)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert not finished
        nursery.cancel_scope.cancel()


async def test_what_was_sent_is_counted_as_it_goes(network):
    async with connected(network) as (here, there):
        assert here.sent_bytes == 0
        await here.send_parts([b"12345", b"678"])
        assert here.sent_bytes == 8
        async with trio.open_nursery() as nursery:
            nursery.start_soon(here.send_parts, [bytes(64_000_000)])
            await receive_exactly(there, 500_000)
            assert 8 < here.sent_bytes < 64_000_000
            nursery.cancel_scope.cancel()
        assert there.sent_bytes == 0


async def test_both_sides_may_send_much_at_once(network):
    data = bytes(2_000_000)
    async with connected(network) as (here, there), trio.open_nursery() as nursery:
        nursery.start_soon(here.send_parts, [data])
        nursery.start_soon(there.send_parts, [data])
        nursery.start_soon(receive_exactly, here, len(data))
        nursery.start_soon(receive_exactly, there, len(data))


async def test_the_end_comes_after_all_that_was_sent_and_stays(network):
    async with connected(network) as (here, there):
        await here.send_parts([b"last words"])
        here.close()
        assert await receive_exactly(there, 10) == b"last words"
        for _ in range(2):
            assert await there.receive_into(memoryview(bytearray(10))) == 0


async def test_close_wakes_a_receive_under_way_and_refuses_later_ones(network):
    async with connected(network) as (here, _):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_fails_to_receive, here)
            await trio.testing.wait_all_tasks_blocked()
            here.close()
        await _fails_to_receive(here)


async def _fails_to_receive(transport: Transport) -> None:
    with pytest.raises(OSError):  # noqa: PT011 - any OSError, as the protocol says
        await transport.receive_into(memoryview(bytearray(1)))


async def _fails_to_send(transport: Transport, data: bytes) -> None:
    with pytest.raises(OSError):  # noqa: PT011
        await transport.send_parts([data])


async def test_close_wakes_a_send_under_way_and_refuses_later_ones(network):
    async with connected(network) as (here, _):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_fails_to_send, here, bytes(64_000_000))
            await trio.testing.wait_all_tasks_blocked()
            here.close()
        await _fails_to_send(here, b"more")


async def test_close_may_be_called_again(network):
    async with connected(network) as (here, _):
        here.close()
        here.close()


async def test_abort_resets_the_peer_which_never_receives_what_had_not_reached_it(network):
    async with connected(network) as (here, there):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_fails_to_send, here, bytes(64_000_000))
            await trio.testing.wait_all_tasks_blocked()
            sent = here.sent_bytes
            here.abort()
        here.abort()
        await _fails_to_send(here, b"more")
        received = await _received_until_reset(there)
        arrives_at_once = isinstance(network, Memory) and network.network.faults == NetworkFaults()
        assert received == sent if arrives_at_once else received < sent


async def _received_until_reset(transport: Transport) -> int:
    received, buffer = 0, memoryview(bytearray(1 << 20))
    while True:
        try:
            got = await transport.receive_into(buffer)
        except OSError:
            return received
        assert got, "the connection ended in order"
        received += got


async def test_sending_to_a_peer_that_closed_raises_sooner_or_later(network):
    async with connected(network) as (here, there):
        there.close()
        with pytest.raises(OSError):  # noqa: PT011
            await _send_on_and_on(here)


async def _send_on_and_on(transport: Transport) -> None:
    for _ in range(1000):
        await transport.send_parts([bytes(1000)])


async def test_a_send_held_up_raises_when_the_peer_closes(network):
    async with connected(network) as (here, there), trio.open_nursery() as nursery:
        nursery.start_soon(_fails_to_send, here, bytes(64_000_000))
        await trio.testing.wait_all_tasks_blocked()
        there.close()


async def test_closing_with_bytes_unread_resets_the_peer(network):
    async with connected(network) as (here, there):
        await here.send_parts([b"unread"])
        await there.receive_into(memoryview(bytearray(1)))
        there.close()
        await _fails_to_receive(here)


async def test_a_cancelled_receive_loses_nothing(network):
    async with connected(network) as (here, there):
        data = bytes(range(256)) * 40
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_send_slowly, here, data)
            seen = bytearray()
            while len(seen) < len(data):
                buffer = bytearray(100)
                got = 0
                with trio.move_on_after(0.0002):
                    got = await there.receive_into(memoryview(buffer))
                seen += buffer[:got]
        assert seen == data


async def _send_slowly(transport: Transport, data: bytes) -> None:
    for start in range(0, len(data), 500):
        await transport.send_parts([data[start : start + 500]])
        await trio.lowlevel.checkpoint()


async def test_a_receive_cancelled_beforehand_receives_nothing(network):
    async with connected(network) as (here, there):
        await here.send_parts([b"x"])
        with trio.CancelScope() as scope:
            scope.cancel()
            await there.receive_into(memoryview(bytearray(1)))
        assert scope.cancelled_caught
        assert await receive_exactly(there, 1) == b"x"


async def test_addresses_and_peers_have_names(network):
    [listener] = await network.listen(HOST, 0)
    host, port = listener.address
    assert host == HOST
    assert port > 0
    here = await network.dial(host, port)
    there = await listener.accept()
    assert here.peer == f"{HOST}:{port}"
    assert here.peer_host == there.peer_host == HOST
    assert there.peer.startswith(f"{HOST}:")
    for each in (here, there, listener):
        each.close()


async def test_two_listeners_on_port_0_get_different_ports(network):
    [one], [two] = await network.listen(HOST, 0), await network.listen(HOST, 0)
    assert one.address[1] != two.address[1]
    one.close()
    two.close()


async def test_a_port_in_use_is_refused_and_free_after_close(network):
    [listener] = await network.listen(HOST, 0)
    port = listener.address[1]
    with pytest.raises(OSError):  # noqa: PT011
        await network.listen(HOST, port)
    listener.close()
    [again] = await network.listen(HOST, port)
    assert again.address == (HOST, port)
    again.close()


async def test_a_closed_listener_wakes_accept_and_refuses_clients(network):
    [listener] = await network.listen(HOST, 0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_fails_to_accept, listener)
        await trio.testing.wait_all_tasks_blocked()
        listener.close()
        listener.close()
    await _fails_to_accept(listener)
    with pytest.raises(OSError):  # noqa: PT011
        await network.dial(*listener.address)


class NoThreads(trio.abc.HostnameResolver):
    """Looks names up as Trio does when no thread can be started."""

    async def getaddrinfo(self, *_args: object, **_options: object) -> NoReturn:
        raise RuntimeError("can't start new thread")

    async def getnameinfo(self, _sockaddr: object, _flags: int) -> NoReturn:
        raise NotImplementedError


async def test_a_dial_without_a_thread_for_the_name_fails_like_one_that_reaches_nobody():
    trio.socket.set_custom_hostname_resolver(NoThreads())
    try:
        with pytest.raises(OSError, match="'somewhere' cannot be looked up: can't start new thread"):
            await dial_tcp("somewhere", 9092)
    finally:
        trio.socket.set_custom_hostname_resolver(None)


async def _fails_to_accept(listener: Listener) -> None:
    with pytest.raises(OSError):  # noqa: PT011
        await listener.accept()


async def test_clients_wait_for_accept_in_their_order(network):
    [listener] = await network.listen(HOST, 0)
    clients = [await network.dial(*listener.address) for _ in range(5)]
    for number, client in enumerate(clients):
        await client.send_parts([b"%d" % number])
    for number, client in enumerate(clients):
        server = await listener.accept()
        assert await receive_exactly(server, 1) == b"%d" % number
        server.close()
        client.close()
    listener.close()


async def test_a_cancelled_accept_loses_no_client(network):
    [listener] = await network.listen(HOST, 0)
    with trio.CancelScope() as scope:
        scope.cancel()
        await listener.accept()
    client = await network.dial(*listener.address)
    with trio.fail_after(5):
        server = await listener.accept()
    for each in (client, server, listener):
        each.close()


# Pollers


@asynccontextmanager
async def polled(
    network: Network, count: int = 1
) -> AsyncIterator[tuple[Poller[str], list[Transport], list[Transport]]]:
    """A poller with `count` connections registered as "0", "1" and so on: (poller, dialling ends, accepted ends)."""
    poller = network.poller()
    async with AsyncExitStack() as stack:
        pairs = [await stack.enter_async_context(connected(network)) for _ in range(count)]
        for number, (_, there) in enumerate(pairs):
            poller.register(there, str(number))
        try:
            yield poller, [here for here, _ in pairs], [there for _, there in pairs]
        finally:
            poller.close()


async def news(poller: Poller[str]) -> list[str]:
    """The next report of the poller."""
    with trio.fail_after(5):
        while not (keys := await poller.wait()):
            pass
    return list(keys)


async def no_news(poller: Poller[str]) -> bool:
    with trio.move_on_after(0.02):
        while not await poller.wait():
            pass
        return False
    return True


def receive_all(transport: Transport) -> bytes:
    """All bytes that have arrived, received without waiting."""
    seen = bytearray()
    buffer = bytearray(100)
    while transport.may_have_more and (got := transport.receive_now(memoryview(buffer))):
        seen += buffer[:got]
    return bytes(seen)


async def received_by_news(poller: Poller[str], transport: Transport, size: int) -> bytes:
    seen = b""
    while len(seen) < size:
        await news(poller)
        seen += receive_all(transport)
    return seen


async def test_a_poller_reports_connections_with_input(network):
    async with polled(network, 3) as (poller, here, there):
        await here[2].send_parts([b"two"])
        assert await news(poller) == ["2"]
        assert receive_all(there[0]) == b""
        assert await received_by_news(poller, there[2], 0) + receive_all(there[2]) == b"two"
        await here[0].send_parts([b"zero"])
        assert await news(poller) == ["0"]


async def test_news_that_is_not_received_is_reported_once(network):
    async with polled(network) as (poller, [here], [there]):
        await here.send_parts([b"first"])
        assert await news(poller) == ["0"]
        assert await no_news(poller)
        await here.send_parts([b" and more"])
        if isinstance(network, Memory) or has("epoll"):
            assert await news(poller) == ["0"]
        else:
            assert await no_news(poller)
        assert there.may_have_more
        seen = receive_all(there)
        assert seen == b"first and more"
        assert there.receive_now(memoryview(bytearray(1))) is None
        await here.send_parts([b"later"])
        assert await news(poller) == ["0"]
        assert receive_all(there) == b"later"


async def test_what_came_before_is_reported_too(network):
    poller = network.poller()
    async with connected(network) as (here, there):
        await here.send_parts([b"early"])
        with trio.move_on_after(0.02):
            await trio.sleep_forever()
        poller.register(there, "late")
        assert await news(poller) == ["late"]
        assert receive_all(there) == b"early"
        poller.close()


async def test_a_receive_now_that_fills_its_buffer_leaves_the_rest_for_the_next(network):
    data = random.Random(3).randbytes(100_000)
    async with polled(network) as (poller, [here], [there]), trio.open_nursery() as nursery:
        nursery.start_soon(here.send_parts, [data])
        assert await received_by_news(poller, there, len(data)) == data


async def test_the_end_is_news_and_comes_after_the_bytes(network):
    async with polled(network) as (poller, [here], [there]):
        await here.send_parts([b"last words"])
        here.close()
        assert await received_by_news(poller, there, 10) == b"last words"
        if not there.may_have_more:
            assert await news(poller) == ["0"]
        for _ in range(2):
            assert there.receive_now(memoryview(bytearray(10))) == 0


async def test_a_reset_is_news_and_raises(network):
    async with polled(network) as (poller, [here], [there]):
        await there.send_parts([b"unread"])
        await here.receive_into(memoryview(bytearray(1)))
        here.close()
        assert await news(poller) == ["0"]
        with pytest.raises(OSError):  # noqa: PT011
            there.receive_now(memoryview(bytearray(1)))


async def test_an_unregistered_connection_is_not_reported(network):
    async with polled(network, 2) as (poller, here, there):
        poller.unregister(there[0])
        there[1].close()
        poller.unregister(there[1])
        poller.unregister(there[1])
        await here[0].send_parts([b"x"])
        assert await no_news(poller)


async def test_a_connection_that_takes_the_place_of_a_closed_one_is_reported_as_itself(network):
    """TCP gives it the same descriptor, and the closed connection is unregistered late."""
    async with polled(network) as (poller, _, [there]):
        there.close()
        async with connected(network) as (here, newer):
            poller.register(newer, "newer")
            poller.unregister(there)
            await here.send_parts([b"x"])
            assert await news(poller) == ["newer"]


async def test_a_cancelled_wait_loses_no_news(network):
    async with polled(network) as (poller, [here], [there]):
        await here.send_parts([b"x"])
        with trio.CancelScope() as scope:
            scope.cancel()
            await poller.wait()
        assert scope.cancelled_caught
        assert await news(poller) == ["0"]
        assert receive_all(there) == b"x"


async def test_receiving_now_is_refused_after_close(network):
    async with polled(network) as (_, [here], [there]):
        await here.send_parts([b"x"])
        there.close()
        if there.may_have_more:
            with pytest.raises(OSError):  # noqa: PT011
                there.receive_now(memoryview(bytearray(1)))
