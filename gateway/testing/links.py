"""Network links between the nodes of a test's cluster, which a test can cut in each direction separately.

    node 1 ──► relay before node 2 ──► node 2        one process relays all of it: `python -m …links AT:NODE:PORT …`
                     ▲
    test ── "cut 1 2", "heal" ── its standard input; each command is answered by a line

Nodes advertise the relay's ports to each other, so that every connection between two nodes goes through it, while
clients connect directly. The relay needs no privileges and no network namespaces, so it works for root, for other users
and in a container. The client id of a connection's first request contains the id of the node that has opened it
(`broker-2-fetcher-0`, `raft-client-2`, …; `2` alone where a broker of a real Kafka connects to a controller). The
client id of a real Kafka's `AddPartitionsManager` contains no node id; such a connection is never cut.

A cut link loses no bytes of an open connection: they are delivered when the link is healed, and so is the connection's
end, as with TCP over a network that drops packets. A new connection is accepted, but nothing is relayed until then.
"""

import re
import sys
from collections import defaultdict
from typing import Final

import trio

HEADER: Final = re.compile(rb"^.{4}.{8}..(?:(?:(?:broker|node|raft-client)-)?([0-9]+)|AddPartitionsManager)", re.DOTALL)
"""The start of a request: length, API key, version, correlation id, and the client id with the node's id."""
HEADER_BYTES: Final = 64
HOST: Final = "127.0.0.1"
CHUNK_BYTES: Final = 1 << 18
PEEK_S: Final = 0.01
"""Above 0: with 0, Trio cancels before it reads."""


class LinkStates:
    """The state of each link, from one node to another: open or cut."""

    def __init__(self) -> None:
        self._open: defaultdict[tuple[int, int], trio.Event] = defaultdict(_opened)

    def cut(self, source: int, target: int) -> None:
        """Cut the link from `source` to `target`, if it is open."""
        if self._open[source, target].is_set():  # else tasks wait for this event
            self._open[source, target] = trio.Event()

    def heal(self) -> None:
        """Open all links."""
        for link in self._open.values():
            link.set()

    async def passed(self, source: int, target: int) -> None:
        """Wait until the link from `source` to `target` is open."""
        while not self._open[source, target].is_set():  # `cut` may replace the event before this task runs again
            await self._open[source, target].wait()


def _opened() -> trio.Event:
    event = trio.Event()
    event.set()
    return event


class Relay:
    """Relays connections to one port of the node `target`."""

    def __init__(self, links: LinkStates, target: int, port: int) -> None:
        self._links = links
        self._target = target
        self._port = port

    async def serve(self, listener: trio.SocketListener) -> None:
        """Relay until cancelled."""
        await trio.serve_listeners(self._connection, [listener])

    async def _connection(self, client: trio.SocketStream) -> None:
        try:
            head = await _head(client)
            found = HEADER.match(head)
            if found is None:
                return
            source = int(found[1] or 0)  # no node has the id 0, so its links are never cut
            await self._links.passed(source, self._target)
            await self._links.passed(self._target, source)
            if await _has_ended(client):
                return  # the client closed the connection before it was relayed
            server = await trio.open_tcp_stream(HOST, self._port)
            async with server, trio.open_nursery() as nursery:
                nursery.start_soon(self._pump, server, client, self._target, source)
                await self._links.passed(source, self._target)  # it may have been cut while the node was connected
                await server.send_all(head)
                await self._pump(client, server, source, self._target)
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            return  # the node does not run, or a side has closed: both connections are closed

    async def _pump(self, one: trio.SocketStream, other: trio.SocketStream, source: int, target: int) -> None:
        """Relay the bytes that `one` sends, then the end of its stream."""
        try:
            while some := await one.receive_some(CHUNK_BYTES):
                await self._links.passed(source, target)
                await other.send_all(some)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            await self._links.passed(source, target)
            await trio.aclose_forcefully(other)
            return
        await self._links.passed(source, target)
        try:
            await other.send_eof()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            await trio.aclose_forcefully(one)


async def _head(client: trio.SocketStream) -> bytes:
    """The first bytes of a connection, enough to find the node that has opened it."""
    head = b""
    while len(head) < HEADER_BYTES and HEADER.match(head) is None:
        some = await client.receive_some(CHUNK_BYTES)
        if not some:
            break
        head += some
    return head


async def _has_ended(client: trio.SocketStream) -> bool:
    """True if the client has sent the end of its stream, without anything before it that was not received."""
    with trio.move_on_after(PEEK_S):
        return not await client.socket.recv(1, trio.socket.MSG_PEEK)
    return False


async def _execute_commands(links: LinkStates) -> None:
    """Execute the commands from standard input until it ends."""
    async for line in trio.wrap_file(sys.stdin):
        words = line.split()
        if words[0] == "cut":
            links.cut(int(words[1]), int(words[2]))
        else:
            links.heal()
        print("done", flush=True)


async def _run(ports: list[str]) -> None:
    """Relay from each port `AT` of the loopback interface to the port of its node, until standard input ends."""
    links = LinkStates()
    async with trio.open_nursery() as nursery:
        for each in ports:
            at, target, port = map(int, each.split(":"))
            [listener] = await trio.open_tcp_listeners(at, host=HOST)
            nursery.start_soon(Relay(links, target, port).serve, listener)
        print("ready", flush=True)
        await _execute_commands(links)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(_run, sys.argv[1:])
