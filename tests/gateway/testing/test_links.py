"""The relay whose links between nodes a test can cut: in one process, without nodes."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from odradek.gateway.testing.links import LinkStates, Relay

HEAD = b"\0\0\0\x20\0\x01\0\x0d\0\0\0\x01\0\x13broker-2-fetcher-0\0"
"""The start of a request of node 2."""


class Node:
    """The node 1 behind a relay; counts its connections, and returns all bytes that it receives."""

    def __init__(self, links: LinkStates, nursery: trio.Nursery) -> None:
        self.connections = 0
        self._links, self._nursery = links, nursery

    async def start(self) -> int:
        """Returns the relay's port."""
        target = await self._listen(self._serve)
        return await self._listen(Relay(self._links, 1, target).serve)

    async def _listen(self, serve) -> int:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self._nursery.start_soon(serve, listener)
        return listener.socket.getsockname()[1]

    async def _serve(self, listener) -> None:
        await trio.serve_listeners(self._echo, [listener])

    async def _echo(self, stream) -> None:
        self.connections += 1
        async for some in stream:
            await stream.send_all(some)
        await stream.send_eof()


async def answer(stream: trio.SocketStream, sent: bytes) -> bytes:
    await stream.send_all(sent)
    return await received(stream, len(sent))


async def received(stream: trio.SocketStream, size: int) -> bytes:
    found = b""
    while len(found) < size:
        found += await stream.receive_some()
    return found


@pytest.fixture
def links():
    return LinkStates()


@pytest.fixture
async def node(links, nursery):
    return Node(links, nursery)


async def test_what_is_sent_over_a_cut_link_arrives_when_it_is_healed(links, node, nursery):
    async with await trio.open_tcp_stream("127.0.0.1", await node.start()) as client:
        assert await answer(client, HEAD) == HEAD
        links.cut(2, 1)
        await client.send_all(b"kept")
        with trio.move_on_after(0.1) as waited:
            await client.receive_some()
        assert waited.cancelled_caught
        links.cut(2, 1)
        links.heal()
        assert await received(client, 4) == b"kept"


async def test_a_task_that_waits_for_a_link_that_is_cut_twice_continues_when_it_is_healed(links, nursery):
    links.cut(1, 2)
    nursery.start_soon(links.passed, 1, 2)
    await wait_all_tasks_blocked()
    links.cut(1, 2)
    links.heal()
    await wait_all_tasks_blocked()
    assert not nursery.child_tasks


async def test_a_connection_over_a_cut_link_reaches_the_node_when_it_is_healed(links, node, nursery):
    links.cut(2, 1)
    async with await trio.open_tcp_stream("127.0.0.1", await node.start()) as client:
        await client.send_all(HEAD)
        await trio.sleep(0.1)
        assert node.connections == 0
        links.heal()
        assert await received(client, len(HEAD)) == HEAD


async def test_a_connection_that_ended_before_the_link_was_healed_does_not_reach_the_node(links, node, nursery):
    port = await node.start()
    links.cut(2, 1)
    async with await trio.open_tcp_stream("127.0.0.1", port) as ended:
        await ended.send_all(HEAD)
    await trio.sleep(0.1)
    links.heal()
    async with await trio.open_tcp_stream("127.0.0.1", port) as client:
        assert await answer(client, HEAD) == HEAD
    assert node.connections == 1
