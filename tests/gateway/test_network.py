"""What a connection needs of a network, held against TCP and against the simulation's network in memory."""

import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from odradek.gateway.net.transport import Listener, Transport, dial_tcp, listen_tcp
from odradek.gateway.testing.simulation import MemoryNetwork, NetworkFaults

HOST = "127.0.0.1"


class Tcp:
    async def listen(self, host: str, port: int) -> Sequence[Listener]:
        return await listen_tcp(host, port)

    async def dial(self, host: str, port: int) -> Transport:
        return await dial_tcp(host, port)


class Memory:
    def __init__(self, faults: NetworkFaults) -> None:
        self.network = MemoryNetwork(random.Random(0), faults)

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
    """Two ends of a connection, the one that dialled first."""
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
