"""Deadlines that are moved far more often than they fire.

A heartbeat moves its member's session deadline, thousands of times for each session that expires. So moving is one
attribute write: the heap keeps the old, earlier entry, which is corrected when it reaches the top.
"""

import heapq
from dataclasses import dataclass, field
from enum import Enum


class TimerKind(Enum):
    """The purpose of a timer. Each owner of timers derives its own kinds, by which due timers are routed."""


@dataclass(slots=True, eq=False)
class Timer:
    """One deadline of a group or of a member; ids are empty if it belongs to neither.

    `deadline_ms` is when it fires, None when it is not set. Of its entries in the heap only the one at `queued_ms` is
    valid.
    """

    kind: TimerKind
    group_id: str = ""
    member_id: str = ""
    deadline_ms: int | None = None
    queued_ms: int | None = None


@dataclass(slots=True)
class Timers:
    """A heap of timers. The order of equal deadlines depends only on the calls so far, so runs are reproducible.

    It need not be the order in which they were set, since a timer that was moved gets a new place in the heap later.
    """

    _heap: list[tuple[int, int, Timer]] = field(default_factory=list[tuple[int, int, Timer]])
    _sequence: int = 0

    @property
    def entries(self) -> int:
        """The number of entries in the heap, including invalid ones."""
        return len(self._heap)

    def set(self, timer: Timer, deadline_ms: int) -> None:
        """Set `timer` to fire at `deadline_ms`, replacing any earlier setting."""
        timer.deadline_ms = deadline_ms
        queued_ms = timer.queued_ms
        if queued_ms is None or deadline_ms < queued_ms:
            self._push(timer, deadline_ms)

    def cancel(self, timer: Timer) -> None:
        """Prevent `timer` from firing; it may be set again."""
        timer.deadline_ms = None

    def next_deadline_ms(self) -> int | None:
        """Returns a time before which no timer fires, None without entries. It is exact after `pop_due` gave None."""
        # Correcting the heap's top here would cost as much as the rest of a heartbeat.
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> Timer | None:
        """Remove and return one timer whose deadline has passed, the earliest first; None when no timer is due."""
        self._settle()
        if not self._heap or self._heap[0][0] > now_ms:
            return None
        timer = heapq.heappop(self._heap)[2]
        timer.deadline_ms = timer.queued_ms = None
        return timer

    def _push(self, timer: Timer, at_ms: int) -> None:
        timer.queued_ms = at_ms
        self._sequence += 1
        heapq.heappush(self._heap, (at_ms, self._sequence, timer))

    def _settle(self) -> None:
        """Drop or move entries until the first one is a timer's true deadline."""
        heap = self._heap
        while heap:
            at_ms, _, timer = heap[0]
            if timer.queued_ms == at_ms and timer.deadline_ms == at_ms:
                return
            heapq.heappop(heap)
            if timer.queued_ms == at_ms:
                timer.queued_ms = None
                if timer.deadline_ms is not None:
                    self._push(timer, timer.deadline_ms)
