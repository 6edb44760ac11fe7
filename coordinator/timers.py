"""Deadlines that are moved far more often than they fire.

A heartbeat moves its member's session deadline later, thousands of times for each session that ends. So moving is one
attribute write: the heap keeps the old, earlier entry, which is corrected when it reaches the top.
"""

import heapq
from dataclasses import dataclass, field
from enum import Enum


class TimerKind(Enum):
    """What a timer is for. Each owner of timers derives its own kinds, by which timers that are due are routed."""


@dataclass(slots=True, eq=False)
class Timer:
    """One deadline of a group or of a member; empty ids where it is of neither.

    `deadline_ms` is when it fires, None when it is not set. Of its entries in the heap only the one at `queued_ms`
    counts.
    """

    kind: TimerKind
    group_id: str = ""
    member_id: str = ""
    deadline_ms: int | None = None
    queued_ms: int | None = None


@dataclass(slots=True)
class Timers:
    """A heap of timers. Equal deadlines fire in the order in which they were set, so runs repeat exactly."""

    _heap: list[tuple[int, int, Timer]] = field(default_factory=list[tuple[int, int, Timer]])
    _sequence: int = 0

    @property
    def entries(self) -> int:
        """How many entries the heap has, those that do not count any more included."""
        return len(self._heap)

    def set(self, timer: Timer, deadline_ms: int) -> None:
        """Let `timer` fire at `deadline_ms`, in place of any earlier setting."""
        timer.deadline_ms = deadline_ms
        queued_ms = timer.queued_ms
        if queued_ms is None or deadline_ms < queued_ms:
            self._push(timer, deadline_ms)

    def cancel(self, timer: Timer) -> None:
        """Keep `timer` from firing; it may be set again."""
        timer.deadline_ms = None

    def next_deadline_ms(self) -> int | None:
        """The time before which no timer fires; None when none is set. It may be too early, except after `pop_due`."""
        # Correcting the heap's top here would cost a heartbeat as much as everything else that it does.
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
