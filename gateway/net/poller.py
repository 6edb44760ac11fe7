"""Polls many connections for input, from one task.

With a task for each connection, Trio needs a system call and several objects for each small request, and as much memory
as the rest of an idle connection. Here each connection is registered with a poller once. The simulation's in-memory
network has its own poller, which passes the same tests (`tests/gateway/test_network.py`).
"""

import select
from collections.abc import Sequence
from typing import Final, Generic, Protocol, TypeVar

import trio

from odradek.gateway.net.transport import TcpTransport, Transport

T = TypeVar("T")

INPUT: Final = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET
"""Input and end of the stream, each reported once (edge-triggered): unread input is not reported again."""
ENDS: Final = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR
EVENTS_AT_ONCE: Final = 1024


class Poller(Protocol[T]):
    """Reports which of its transports have input. One task at a time waits."""

    def register(self, transport: Transport, key: T) -> None:
        """Report `key` whenever input arrives for `transport`, including input that arrived before. Raises OSError."""
        ...

    def unregister(self, transport: Transport) -> None:
        """Stop reporting the transport. Idempotent; also after the transport was closed."""
        ...

    async def wait(self) -> Sequence[T]:
        """Wait for input, and return the keys of transports that have any, as `ready` does; always a checkpoint.

        The result may be empty. A cancelled call loses no report.
        """
        ...

    def ready(self) -> Sequence[T]:
        """The keys of transports that have received bytes, or the end of the stream, since they were last reported.

        `receive_now` reads the input. Each arrival is reported once, whether or not it is then read.
        """
        ...

    def close(self) -> None:
        """Unregister all transports. Idempotent."""
        ...


class EpollPoller(Generic[T]):
    """A poller of TCP connections: one epoll object, whose descriptor Trio waits for."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._number = self._epoll.fileno()
        self._registered: dict[int, tuple[TcpTransport, T]] = {}

    def register(self, transport: Transport, key: T) -> None:
        """See `Poller.register`."""
        assert isinstance(transport, TcpTransport)
        self._epoll.register(transport.number, INPUT)
        self._registered[transport.number] = transport, key

    def unregister(self, transport: Transport) -> None:
        """See `Poller.unregister`. The system unregisters a closed socket itself, and may have reused its number."""
        assert isinstance(transport, TcpTransport)
        registered = self._registered.get(transport.number)
        if registered is not None and registered[0] is transport:
            del self._registered[transport.number]
            if not transport.is_closed:
                self._epoll.unregister(transport.number)

    async def wait(self) -> Sequence[T]:
        """See `Poller.wait`."""
        await trio.lowlevel.wait_readable(self._number)
        return self.ready()

    def ready(self) -> Sequence[T]:
        """See `Poller.ready`."""
        keys: list[T] = []
        for number, flags in self._epoll.poll(0, EVENTS_AT_ONCE):
            transport, key = self._registered[number]
            transport.may_have_more = True
            if flags & ENDS:
                transport.has_ended = True
            keys.append(key)
        return keys

    def close(self) -> None:
        """See `Poller.close`."""
        if not self._epoll.closed:
            trio.lowlevel.notify_closing(self._number)
            self._epoll.close()
            self._registered.clear()
