"""One direction of a simulated connection: bytes on their way, each with the time it arrives.

Nothing runs in the background: a receiver sleeps until the next arrival. What has been sent counts against the
window until it was read, so a reader that is slow or absent holds up its writer, as with TCP.

    write ──► [arrives 3.2 s: 700 bytes][arrives 3.4 s: 90 bytes][arrives 3.4 s: end] ──► take
"""

import math
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Final

import trio

from odradek.gateway.testing.simulation.timers import TimedSignal

WINDOW_BYTES: Final = 256 * 1024


class End(Enum):
    """How a direction ends: in order, after all that was sent, or torn down."""

    FINISHED = "finished"
    RESET = "reset"


class Reader(Enum):
    """The state of the reading side; LOST is one whose machine lost power, without a packet to its peer."""

    THERE = "there"
    CLOSED = "closed"
    LOST = "lost"


class Pipe:
    """Bytes from `source` to `target`, both names of hosts.

    `blocked()` says whether the network lets nothing through between them at present.
    """

    def __init__(self, source: str, target: str, blocked: Callable[[], bool], window_bytes: int = WINDOW_BYTES) -> None:
        self.source = source
        self.target = target
        self.unread_bytes = 0
        self.reader = Reader.THERE
        self._blocked = blocked
        self._window_bytes = window_bytes
        self._chunks: deque[tuple[float, memoryview | End]] = deque()
        self._last_arrival = 0.0
        self._waiting: dict[TimedSignal, None] = {}
        self._put_count = 0
        self.on_change: Callable[[], None] = _ignore

    @property
    def is_blocked(self) -> bool:
        """Whether the network lets nothing through at present."""
        return self._blocked()

    def arrivals(self, now: float) -> int:
        """How many sends, and ends, have arrived so far."""
        if self._blocked():
            return 0
        if self._last_arrival <= now:
            return self._put_count
        return self._put_count - sum([arrival > now for arrival, _ in self._chunks])

    def next_arrival(self, now: float) -> float:
        """When the next of them arrives that has not arrived yet, if nothing changes until then."""
        if self._last_arrival <= now or self._blocked():
            return math.inf
        return next((arrival for arrival, _ in self._chunks if arrival > now), math.inf)

    @property
    def room_bytes(self) -> int:
        """How much may be written before something has to be read."""
        return self._window_bytes - self.unread_bytes

    def write(self, data: memoryview, delay_s: float) -> None:
        """Send `data`, which must fit into the room, to arrive after what was sent before it."""
        self.unread_bytes += len(data)
        self._put(data, delay_s)

    def end(self, how: End, delay_s: float) -> None:
        """Say that nothing more will come."""
        self._put(how, delay_s)

    def discard(self) -> None:
        """Drop what has not arrived. While the network lets nothing through, that is all that was not read."""
        while self._chunks and (self._blocked() or self._chunks[-1][0] > trio.current_time()):
            _, what = self._chunks.pop()
            self.unread_bytes -= 0 if isinstance(what, End) else len(what)

    def _put(self, what: memoryview | End, delay_s: float) -> None:
        self._last_arrival = max(self._last_arrival, trio.current_time() + delay_s)
        self._chunks.append((self._last_arrival, what))
        self._put_count += 1
        self.notify()

    def arrived(self) -> memoryview | End | None:
        """The oldest that has arrived and was not taken, None when there is nothing."""
        if not self._chunks or self._blocked():
            return None
        arrival, what = self._chunks[0]
        return what if arrival <= trio.current_time() else None

    def take(self, size: int) -> bytes:
        """Take `size` bytes of what `arrived` returned."""
        arrival, what = self._chunks.popleft()
        assert not isinstance(what, End)
        if size < len(what):
            self._chunks.appendleft((arrival, what[size:]))
        self.unread_bytes -= size
        self.notify()
        return bytes(what[:size])

    def notify(self) -> None:
        """Wake the tasks that wait here."""
        self.on_change()
        waiting, self._waiting = self._waiting, {}
        for signal in waiting:
            signal.wake()

    async def changed(self, until: float = math.inf) -> None:
        """Wait until something changes: room, the end, the network. Look again afterwards."""
        signal = TimedSignal()
        self._waiting[signal] = None
        try:
            await signal.wait(until)
        finally:
            self._waiting.pop(signal, None)

    async def arrival(self) -> None:
        """Wait until something may have arrived. Look again afterwards."""
        await self.changed(self._chunks[0][0] if self._chunks and not self._blocked() else math.inf)


def _ignore() -> None:
    """Nothing watches."""
