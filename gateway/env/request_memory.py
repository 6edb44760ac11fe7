"""The bytes of all requests that are being received or handled: connections stop reading while they are too many."""

import logging
from collections.abc import Hashable

import trio

from odradek.gateway.env.repeats import Repeats

log = logging.getLogger(__name__)


class RequestMemory:
    """Counts bytes up to `max_bytes` (`queued.max.request.bytes`; no limit where that is not above zero).

    What counts is the memory that requests have, not what a client announces. A large request's memory grows while it
    is received, so many could stop halfway with none able to be completed. Therefore the oldest of those begun may go
    on while no request is being handled, which would give memory back: the limit is exceeded by one request at most,
    and by the first buffers of connections (64 KB each). A request larger than the limit can be served.
    """

    def __init__(self, max_bytes: int, repeats: Repeats) -> None:
        self._max_bytes = max_bytes
        self._repeats = repeats
        self._begun: dict[Hashable, int] = {}  # their memory, in the order of beginning
        self._begun_bytes = 0
        self._waiting: dict[Hashable, trio.Event] = {}  # in the order of asking
        self.taken_bytes = 0
        self.is_full = False
        """Whether connections are to wait."""

    def _change(self, size_bytes: int) -> None:
        self.taken_bytes += size_bytes
        self.is_full = 0 < self._max_bytes <= self.taken_bytes

    def take(self, size_bytes: int) -> None:
        """So much more is there."""
        self._change(size_bytes)

    def give_back(self, size_bytes: int) -> None:
        """So much is done with."""
        self._change(-size_bytes)
        if self._waiting:
            self._wake_next()

    def grow(self, reader: Hashable, size_bytes: int) -> None:
        """The large request that `reader` receives takes so much more."""
        self._begun[reader] = self._begun.get(reader, 0) + size_bytes
        self._begun_bytes += size_bytes
        self._change(size_bytes)

    def end(self, reader: Hashable) -> None:
        """`reader` has received all of it, or never will; its bytes are still taken. Idempotent."""
        self._begun_bytes -= self._begun.pop(reader, 0)

    def account(self) -> "MemoryAccount":
        """An account for one connection."""
        return MemoryAccount(self)

    async def room(self, reader: Hashable) -> None:
        """Return when `reader` may receive more. The longest waiting one is first."""
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
                self._wake_next()  # this task may have been woken in vain, and another be exempt by now
                await event.wait()
        finally:
            self._waiting.pop(reader, None)
            self._wake_next()  # also when cancelled: the call that woke this task woke no other

    def _may_go_on(self, reader: Hashable) -> bool:
        return not self.is_full or self._exempt() == reader

    def _exempt(self) -> Hashable | None:
        """Who may go on though the limit is reached."""
        is_any_handled = self.taken_bytes > self._begun_bytes
        return None if is_any_handled else next(iter(self._begun), None)

    def _wake_next(self) -> None:
        if self._waiting:
            reader = self._exempt() if self.is_full else next(iter(self._waiting))
            event = self._waiting.get(reader)
            if event is not None:
                event.set()


class MemoryAccount:
    """What the requests of one connection take of the broker's request memory: `taken_bytes` now."""

    __slots__ = ("_memory", "_unfinished_bytes", "taken_bytes")

    def __init__(self, memory: RequestMemory) -> None:
        self._memory = memory
        self.taken_bytes = 0
        self._unfinished_bytes = 0

    async def room(self) -> None:
        """See `RequestMemory.room`."""
        await self._memory.room(self)

    def set(self, request_bytes: int, unfinished_bytes: int) -> None:
        """What complete requests take now, and the one that is being received."""
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
