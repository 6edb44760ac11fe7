"""One direction of a simulated connection: a queue of bytes in transit, each chunk with its time of arrival.

There is no background task: a receiver sleeps until the next arrival. Sent bytes count against the window until they
are read, so a reader that is slow or absent blocks its writer, as with TCP.

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
    """How a direction ends: FINISHED after all sent bytes, as with FIN, or by a RESET."""

    FINISHED = "finished"
    RESET = "reset"


class Reader(Enum):
    """The state of the reading side; LOST: its machine lost power and sent no packet to its peer."""

    THERE = "there"
    CLOSED = "closed"
    LOST = "lost"


class Pipe:
    """Bytes from `source` to `target`, both names of hosts.

    `blocked()` returns True while the network delivers nothing between them.
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
        """True while the network delivers nothing."""
        return self._blocked()

    def arrivals(self, now: float) -> int:
        """The number of writes and ends that have arrived by `now`; 0 while the network is blocked."""
        if self._blocked():
            return 0
        if self._last_arrival <= now:
            return self._put_count
        return self._put_count - sum([arrival > now for arrival, _ in self._chunks])

    def next_arrival(self, now: float) -> float:
        """The time of the next arrival after `now` if nothing changes until then; infinity if there is none."""
        if self._last_arrival <= now or self._blocked():
            return math.inf
        return next((arrival for arrival, _ in self._chunks if arrival > now), math.inf)

    @property
    def room_bytes(self) -> int:
        """The number of bytes that may be written before the reader has to take some."""
        return self._window_bytes - self.unread_bytes

    def write(self, data: memoryview, delay_s: float) -> None:
        """Send `data`, at most `room_bytes`; it arrives after `delay_s`, and not before earlier writes."""
        self.unread_bytes += len(data)
        self._put(data, delay_s)

    def end(self, how: End, delay_s: float) -> None:
        """Send the end of this direction."""
        self._put(how, delay_s)

    def discard(self) -> None:
        """Drop what has not arrived; while the network is blocked, that is everything unread."""
        while self._chunks and (self._blocked() or self._chunks[-1][0] > trio.current_time()):
            _, what = self._chunks.pop()
            self.unread_bytes -= 0 if isinstance(what, End) else len(what)

    def _put(self, what: memoryview | End, delay_s: float) -> None:
        self._last_arrival = max(self._last_arrival, trio.current_time() + delay_s)
        self._chunks.append((self._last_arrival, what))
        self._put_count += 1
        self.notify()

    def arrived(self) -> memoryview | End | None:
        """The oldest chunk or end that has arrived and was not taken; None if there is none."""
        if not self._chunks or self._blocked():
            return None
        arrival, what = self._chunks[0]
        return what if arrival <= trio.current_time() else None

    def take(self, size: int) -> bytes:
        """Take `size` bytes of the chunk that `arrived` returned."""
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
        """Wait until the pipe or the network may have changed, or until `until`. Callers check the state again."""
        signal = TimedSignal()
        self._waiting[signal] = None
        try:
            await signal.wait(until)
        finally:
            self._waiting.pop(signal, None)

    async def arrival(self) -> None:
        """Wait until something may have arrived. Callers check the state again."""
        await self.changed(self._chunks[0][0] if self._chunks and not self._blocked() else math.inf)


def _ignore() -> None:
    """The default of `Pipe.on_change`."""
