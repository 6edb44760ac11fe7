"""The poller of the memory network: see `odradek.gateway.net.poller`, whose tests it passes."""

import math
from collections.abc import Sequence
from operator import attrgetter
from typing import Final, Generic, TypeVar

import trio

from odradek.gateway.net.transport import Transport
from odradek.gateway.testing.simulation.network import MemoryTransport
from odradek.gateway.testing.simulation.timers import TimedSignal

T = TypeVar("T")


class _Watched(Generic[T]):
    """One transport, and how many of its arrivals were reported; `number` gives the order of registration."""

    __slots__ = ("_arrivals", "_is_broken", "_poller", "incoming", "is_registered", "key", "number", "transport")

    def __init__(self, poller: "MemoryPoller[T]", transport: MemoryTransport, key: T, number: int) -> None:
        self.transport = transport
        self.incoming = transport.incoming
        self.key = key
        self.number = number
        self.is_registered = True
        self._poller = poller
        self._arrivals = 0
        self._is_broken = False

    def change(self) -> None:
        """Called when something was sent or taken, or the connection ended."""
        self._poller.changed(self)

    def has_input(self, now: float) -> bool:
        """True if anything has arrived, or the connection has broken, since the last call."""
        arrivals, is_broken = self.incoming.arrivals(now), self.transport.is_broken
        has_input = arrivals > self._arrivals or is_broken > self._is_broken
        self._arrivals, self._is_broken = max(arrivals, self._arrivals), is_broken
        return has_input

    def may_have_input(self, now: float) -> bool:
        """True if something may arrive later without a call of `change` before."""
        return self.incoming.is_blocked or self.incoming.next_arrival(now) < math.inf


_IN_ORDER: Final = attrgetter("number")


class MemoryPoller(Generic[T]):
    """Reports transports in the order in which they were registered.

    Most transports have nothing to report most of the time, so only those are checked that have changed since the last
    wait, or have data in transit.
    """

    def __init__(self) -> None:
        self._registered: dict[Transport, _Watched[T]] = {}
        self._count = 0
        self._moving: dict[_Watched[T], None] = {}
        self._changed = TimedSignal()

    def register(self, transport: Transport, key: T) -> None:
        """See `Poller.register`."""
        assert isinstance(transport, MemoryTransport)
        before = self._registered.get(transport)
        if before is None:
            self._count += 1
        self.unregister(transport)
        watched = _Watched(self, transport, key, self._count if before is None else before.number)
        self._registered[transport] = watched
        transport.incoming.on_change = watched.change
        watched.change()

    def unregister(self, transport: Transport) -> None:
        """See `Poller.unregister`."""
        watched = self._registered.pop(transport, None)
        if watched is not None:
            watched.is_registered = False
            self._moving.pop(watched, None)

    def changed(self, watched: _Watched[T]) -> None:
        """Check `watched` in the next wait, unless it was unregistered: its pipe may still change after that."""
        if watched.is_registered:
            self._moving[watched] = None
        self._changed.wake()

    async def wait(self) -> Sequence[T]:
        """See `Poller.wait`."""
        now = trio.current_time()
        until = min([each.incoming.next_arrival(now) for each in self._moving], default=math.inf)
        try:
            await self._changed.wait(until)
        except trio.Cancelled:
            self._changed.wake()  # so that the next wait reports what this one was woken for
            raise
        return self.ready()

    def ready(self) -> Sequence[T]:
        """See `Poller.ready`."""
        if not self._moving:
            return ()
        now = trio.current_time()
        looked_at = sorted(self._moving, key=_IN_ORDER)
        self._moving = {each: None for each in looked_at if each.may_have_input(now)}
        return [each.key for each in looked_at if each.has_input(now)]

    def close(self) -> None:
        """See `Poller.close`."""
        for transport in list(self._registered):
            self.unregister(transport)
