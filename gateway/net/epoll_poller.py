"""The poller of Linux: one epoll object for all connections, whose descriptor Trio waits for."""

import select
import sys
from collections.abc import Sequence
from typing import Final, Generic, TypeVar

import trio

from odradek.gateway.net.transport import TcpTransport, Transport

assert sys.platform == "linux"

T = TypeVar("T")

INPUT: Final = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET
"""Input and end of the stream, each reported once (edge-triggered): unread input is not reported again."""
ENDS: Final = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR
EVENTS_AT_ONCE: Final = 1024


class EpollPoller(Generic[T]):
    """See `odradek.gateway.net.poller.Poller`."""

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
