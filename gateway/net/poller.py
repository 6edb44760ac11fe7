"""Which of many connections have bytes to receive, found out by one task for all of them.

A task that waits for one socket costs Trio a system call and the objects of a wait for each small request, and as much
memory as all else of a connection that has nothing to do. A poller is told of each connection once. The simulation's
network in memory has a poller of its own, which passes the same tests (`tests/gateway/test_network.py`).

Connections that seldom have news have it one at a time. Then a turn of Trio's loop would cost as much as half a
request, and the poller waits in its place (`in_place.py`). With many busy connections a turn finds several of them, and
costs less for each than it would to find them one by one.
"""

import select
from collections.abc import Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar

import trio

from odradek.gateway.net.in_place import InPlaceWait
from odradek.gateway.net.transport import TcpTransport, Transport

T = TypeVar("T")

NEWS: Final = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET
"""Bytes, and the end, each reported once: what is left unread on purpose is not reported again and again."""
ENDS: Final = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR
EVENTS_AT_ONCE: Final = 1024


class Poller(Protocol[T]):
    """Tells when something has come for any of its transports. One task at a time waits."""

    def register(self, transport: Transport, key: T) -> None:
        """Report `key` whenever something has come for `transport`, also if it came before. Raises OSError."""
        ...

    def unregister(self, transport: Transport) -> None:
        """Report it no more. Idempotent; also after the transport was closed."""
        ...

    @property
    def takes_turns(self) -> bool:
        """Whether the next `wait` takes a turn of the scheduler, as far as is known now."""
        ...

    async def wait(self) -> Sequence[T]:
        """Wait for news, and return the keys of those that have any, as `ready` does.

        Always a checkpoint for cancellation, and one for other tasks while there are any that can run. The result may
        be empty. A cancelled call has lost no news.
        """
        ...

    def ready(self) -> Sequence[T]:
        """The keys of transports for which something has come since they were last reported: bytes, or the end.

        `receive_now` gets it. Each arrival is reported once, whether it is received then or not.
        """
        ...

    def close(self) -> None:
        """Forget all of them. Idempotent."""
        ...


class EpollPoller(Generic[T]):
    """A poller of TCP connections: one epoll object, which Trio waits for as for any descriptor.

    With `on_turn` it waits in the place of Trio's loop where it can, and calls `on_turn(timeout_s)` after each such
    wait. It is made in `trio.run` then.
    """

    def __init__(self, on_turn: Callable[[float], None] | None = None) -> None:
        self._epoll = select.epoll()
        self._number = self._epoll.fileno()
        self._registered: dict[int, tuple[TcpTransport, T]] = {}
        self._found = 0  # how many had news when they were asked for last
        self._in_place = None if on_turn is None else InPlaceWait(self._number, on_turn)

    def register(self, transport: Transport, key: T) -> None:
        """See `Poller.register`."""
        assert isinstance(transport, TcpTransport)
        self._epoll.register(transport.number, NEWS)
        self._registered[transport.number] = transport, key

    def unregister(self, transport: Transport) -> None:
        """See `Poller.unregister`. The system forgets a closed socket by itself, and may have given its number away."""
        assert isinstance(transport, TcpTransport)
        registered = self._registered.get(transport.number)
        if registered is not None and registered[0] is transport:
            del self._registered[transport.number]
            if not transport.is_closed:
                self._epoll.unregister(transport.number)

    @property
    def takes_turns(self) -> bool:
        """See `Poller.takes_turns`."""
        in_place = self._in_place
        return in_place is None or self._found > 1 or in_place.scheduled != 1 or in_place.turns_left > 0

    async def wait(self) -> Sequence[T]:
        """See `Poller.wait`."""
        in_place = self._in_place
        if in_place is not None:
            if in_place.turns_left:
                in_place.turns_left -= 1
            elif self._found <= 1 and in_place.scheduled == 1:
                await trio.lowlevel.checkpoint_if_cancelled()
                if in_place.wait_in_place():
                    return self.ready()
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
        self._found = len(keys)
        return keys

    def close(self) -> None:
        """See `Poller.close`."""
        if not self._epoll.closed:
            if self._in_place is not None:
                self._in_place.close()
            trio.lowlevel.notify_closing(self._number)
            self._epoll.close()
            self._registered.clear()
