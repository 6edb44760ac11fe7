"""A small HTTP/1.1 server over Trio, for pages that are read now and then: one request for each connection.

Its limits hold whatever clients do: so many connections, so many bytes of a request, so much time. If there are more
connections, the one that has waited longest is closed, so that idle clients cannot keep a health check out.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

import h11
import trio

from odradek.wire.values import immutable

log = logging.getLogger(__name__)

MAX_CLIENTS: Final = 64
MAX_REQUEST_BYTES: Final = 16_384
REQUEST_TIMEOUT_S: Final = 10.0
"""The time in which a client has to send its request."""
ANSWER_TIMEOUT_S: Final = 30.0
"""The time in which a client gets its answer."""
TEXT: Final = "text/plain; charset=utf-8"
_RECEIVE_BYTES: Final = 4096
_METHODS: Final = (b"GET", b"HEAD")


@immutable
class Page:
    """An answer: its status, type and bytes."""

    status: int
    body: bytes
    content_type: str = TEXT


class _Client:
    """A connection; `asks` until its request is complete."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.asks = True


class HttpServer:
    """Answers GET and HEAD with the pages that `find` returns for their paths, without query."""

    def __init__(self, find: Callable[[str], Awaitable[Page]], *, max_clients: int = MAX_CLIENTS) -> None:
        self._find = find
        self._max_clients = max_clients
        self._clients: dict[_Client, None] = {}

    async def serve(self, listeners: Sequence[trio.SocketListener]) -> None:
        """Serve until cancelled, which closes the listeners and all connections."""
        await trio.serve_listeners(self.handle, list(listeners))

    async def handle(self, stream: trio.abc.Stream) -> None:
        """Answer one client and close its connection. Raises nothing; cancellation closes the connection."""
        client = _Client()
        client.scope.deadline = trio.current_time() + REQUEST_TIMEOUT_S
        self._make_room()
        self._clients[client] = None
        try:
            with client.scope, suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await self._answer(client, stream)
        except Exception:
            log.exception("a metrics request failed")
        finally:
            del self._clients[client]
            await trio.aclose_forcefully(stream)

    def _make_room(self) -> None:
        """Close the oldest connections above the limit: those without a request first."""
        in_order = [each for each in self._clients if not each.scope.cancel_called]
        in_order.sort(key=lambda client: not client.asks)
        for client in in_order[: max(0, len(in_order) - self._max_clients + 1)]:
            log.debug("metrics client closed: there are more than %d", self._max_clients)
            client.scope.cancel()

    async def _answer(self, client: _Client, stream: trio.abc.Stream) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_REQUEST_BYTES)
        try:
            request = await _receive(connection, stream)
        except h11.RemoteProtocolError as error:
            await _send(connection, stream, Page(error.error_status_hint, f"{error}\n".encode()))
            return
        if request is None:
            return
        client.asks = False
        client.scope.deadline = trio.current_time() + ANSWER_TIMEOUT_S
        page = await self._page(request)
        await _send(connection, stream, page, is_head=request.method == b"HEAD")

    async def _page(self, request: h11.Request) -> Page:
        if request.method not in _METHODS:
            return Page(405, b"only GET and HEAD\n")
        path = request.target.decode("ascii", errors="replace").partition("?")[0]
        try:
            return await self._find(path)
        except Exception:
            log.exception("cannot answer a metrics request")
            return Page(500, b"an error of the broker, see its log\n")


async def _receive(connection: h11.Connection, stream: trio.abc.Stream) -> h11.Request | None:
    """Return the head of the request, None if the client ends before it. Raises h11.RemoteProtocolError."""
    while True:
        event = connection.next_event()
        if isinstance(event, h11.Request):
            return event
        if event is not h11.NEED_DATA:
            return None
        connection.receive_data(bytes(await stream.receive_some(_RECEIVE_BYTES)))


async def _send(connection: h11.Connection, stream: trio.abc.Stream, page: Page, *, is_head: bool = False) -> None:
    headers = [
        ("Content-Type", page.content_type),
        ("Content-Length", str(len(page.body))),
        ("Connection", "close"),
        *([("Allow", "GET, HEAD")] if page.status == 405 else []),
    ]
    parts = [connection.send(h11.Response(status_code=page.status, headers=headers))]
    if not is_head:
        parts.append(connection.send(h11.Data(data=page.body)))
    parts.append(connection.send(h11.EndOfMessage()))
    await stream.send_all(b"".join(part for part in parts if part))
    if isinstance(stream, trio.SocketStream):
        await _finish(stream)


async def _finish(stream: trio.SocketStream) -> None:
    """Close after the client: closing with bytes unread would reset the connection, and the answer could be lost."""
    await stream.send_eof()
    while await stream.receive_some(_RECEIVE_BYTES):
        pass
