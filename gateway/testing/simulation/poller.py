"""The poller of the network in memory: see `odradek.gateway.net.poller`, whose tests it passes."""

import math
from collections.abc import Sequence
from typing import Generic, TypeVar

import trio

from odradek.gateway.env.signals import Signal
from odradek.gateway.net.transport import Transport
from odradek.gateway.testing.simulation.network import MemoryTransport

T = TypeVar("T")


class _Watched(Generic[T]):
    """One transport, and how much of what came for it has been reported."""

    def __init__(self, transport: MemoryTransport, key: T) -> None:
        self.transport = transport
        self.key = key
        self._arrivals = 0
        self._is_broken = False

    def has_news(self) -> bool:
        """Whether anything came since this was called last."""
        arrivals, is_broken = self.transport.incoming.arrivals, self.transport.is_broken
        has_news = arrivals > self._arrivals or is_broken > self._is_broken
        self._arrivals, self._is_broken = max(arrivals, self._arrivals), is_broken
        return has_news


class MemoryPoller(Generic[T]):
    """Reports transports in the order in which they were registered."""

    def __init__(self) -> None:
        self._registered: dict[Transport, _Watched[T]] = {}
        self._changed = Signal()

    def register(self, transport: Transport, key: T) -> None:
        """See `Poller.register`."""
        assert isinstance(transport, MemoryTransport)
        self._registered[transport] = _Watched(transport, key)
        transport.incoming.on_change = self._changed.wake
        self._changed.wake()

    def unregister(self, transport: Transport) -> None:
        """See `Poller.unregister`."""
        self._registered.pop(transport, None)

    @property
    def takes_turns(self) -> bool:
        """See `Poller.takes_turns`."""
        return True

    async def wait(self) -> Sequence[T]:
        """See `Poller.wait`."""
        arrivals = [each.transport.incoming.next_arrival for each in self._registered.values()]
        try:
            with trio.move_on_at(min(arrivals, default=math.inf)):
                await self._changed.wait()
        except trio.Cancelled:
            self._changed.wake()  # what it was woken for is found by the next wait
            raise
        return self.ready()

    def ready(self) -> Sequence[T]:
        """See `Poller.ready`."""
        return [each.key for each in self._registered.values() if each.has_news()]

    def close(self) -> None:
        """See `Poller.close`."""
        self._registered.clear()
