"""Counts the bytes of all requests that are being received or handled; above a limit, connections stop reading."""

import logging
from collections.abc import Hashable

import trio

from odradek.gateway.env.repeats import Repeats

log = logging.getLogger(__name__)


class RequestMemory:
    """Counts bytes up to `max_bytes` (`queued.max.request.bytes`; no limit unless it is above zero).

    The memory that requests occupy counts, not the size that a client announces. A large request's memory grows while
    it is received, so many of them could stop halfway, with none able to be completed. Therefore the oldest request
    begun may continue while no request is being handled, since handling would free memory. So the limit is exceeded by
    at most one request and the first buffers of connections (64 KB each), and a request larger than the limit can be
    served.

    Requests of nodes may be needed to end those of clients, such as a follower's Fetch, on which a Produce with
    acks=all waits. So requests that wait for other nodes do not count, records count only until they are durable here,
    and listeners for nodes alone are always read.
    """

    def __init__(self, max_bytes: int, repeats: Repeats) -> None:
        self._max_bytes = max_bytes
        self._repeats = repeats
        self._begun: dict[Hashable, int] = {}  # bytes of each unfinished large request, in the order of beginning
        self._begun_bytes = 0
        self._waiting: dict[Hashable, trio.Event] = {}  # in the order in which they began to wait
        self.taken_bytes = 0
        self.is_full = False
        """True if connections must stop reading."""

    def _change(self, size_bytes: int) -> None:
        self.taken_bytes += size_bytes
        self.is_full = 0 < self._max_bytes <= self.taken_bytes

    def take(self, size_bytes: int) -> None:
        """Count `size_bytes` more."""
        self._change(size_bytes)

    def give_back(self, size_bytes: int) -> None:
        """Count `size_bytes` less."""
        self._change(-size_bytes)
        if self._waiting:
            self._wake_next()

    def count(self, change_bytes: int) -> None:
        """Count `change_bytes` more, or less if it is negative: bytes of requests that wait to be written."""
        if change_bytes >= 0:
            self.take(change_bytes)
        else:
            self.give_back(-change_bytes)

    def grow(self, reader: Hashable, size_bytes: int) -> None:
        """Count `size_bytes` more for the large request that `reader` is receiving."""
        self._begun[reader] = self._begun.get(reader, 0) + size_bytes
        self._begun_bytes += size_bytes
        self._change(size_bytes)

    def end(self, reader: Hashable) -> None:
        """Note that `reader` has received all of its request, or never will; its bytes stay counted. Idempotent."""
        self._begun_bytes -= self._begun.pop(reader, 0)

    def account(self) -> "MemoryAccount":
        """An account for one connection."""
        return MemoryAccount(self)

    async def room(self, reader: Hashable) -> None:
        """Return when `reader` may receive more. Readers continue in the order in which they began to wait."""
        if self._may_go_on(reader):
            return
        self._repeats.note(
            RequestMemory,
            log,
            logging.WARNING,
            "connections wait: unfinished requests take %d bytes (queued.max.request.bytes=%d)",
            self.taken_bytes,
            self._max_bytes,
        )
        try:
            while not self._may_go_on(reader):
                self._waiting[reader] = event = trio.Event()
                self._wake_next()  # this task may have been woken although another is exempt by now
                await event.wait()
        finally:
            self._waiting.pop(reader, None)
            self._wake_next()  # also when cancelled: the call that woke this task woke no other

    def _may_go_on(self, reader: Hashable) -> bool:
        return not self.is_full or self._exempt() == reader

    def _exempt(self) -> Hashable | None:
        """The reader that may continue although the limit is reached, or None."""
        is_any_handled = self.taken_bytes > self._begun_bytes
        return None if is_any_handled else next(iter(self._begun), None)

    def _wake_next(self) -> None:
        if self._waiting:
            reader = self._exempt() if self.is_full else next(iter(self._waiting))
            event = self._waiting.get(reader)
            if event is not None:
                event.set()


class MemoryAccount:
    """The part of the broker's request memory that one connection's requests occupy: `taken_bytes` now."""

    __slots__ = ("_memory", "_unfinished_bytes", "taken_bytes")

    def __init__(self, memory: RequestMemory) -> None:
        self._memory = memory
        self.taken_bytes = 0
        self._unfinished_bytes = 0

    async def room(self) -> None:
        """See `RequestMemory.room`."""
        await self._memory.room(self)

    def set(self, request_bytes: int, unfinished_bytes: int) -> None:
        """Set the bytes of complete requests, and of the request that is being received."""
        if unfinished_bytes != self._unfinished_bytes:
            self._set_unfinished(unfinished_bytes)
        change_bytes = request_bytes + unfinished_bytes - self.taken_bytes
        self.taken_bytes += change_bytes
        if change_bytes > 0:
            self._memory.take(change_bytes)
        elif change_bytes < 0:
            self._memory.give_back(-change_bytes)

    def _set_unfinished(self, size_bytes: int) -> None:
        grown_bytes = size_bytes - self._unfinished_bytes
        self._unfinished_bytes = size_bytes
        if grown_bytes > 0:
            self._memory.grow(self, grown_bytes)
            self.taken_bytes += grown_bytes
        else:
            self._memory.end(self)
