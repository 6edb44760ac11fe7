"""Deadlines that are moved far more often than they fire.

A heartbeat moves its member's session deadline later, thousands of times for each time one fires. So moving is one
attribute write: the heap keeps the old, earlier entry, and the entry is put right when it reaches the top.
"""

import heapq
from dataclasses import dataclass, field
from enum import Enum, auto


class TimerKind(Enum):
    """What happens when a timer fires."""

    SESSION = auto()
    """A member, or one that was only given its id, has not been heard of for its session timeout."""
    JOIN = auto()
    """The join phase has lasted long enough: go on with whoever has joined."""
    SYNC = auto()
    """The sync phase has lasted long enough: remove whoever has not synced."""
    RETENTION = auto()
    """Look for offsets and groups that have outlived their retention."""
    TOPICS_DELETED = auto()
    """More offsets in deleted topics are to be deleted."""
    CONSUMER_SESSION = auto()
    """A member of a consumer group has not been heard of for its session timeout."""
    CONSUMER_REBALANCE = auto()
    """A member of a consumer group has not given up its partitions within its rebalance timeout."""
    CONSUMER_JOIN = auto()
    """A classic member of a consumer group was told to join again and has not."""
    CONSUMER_SYNC = auto()
    """A classic member of a consumer group has joined and not synced."""
    CONSUMER_REGEX = auto()
    """The regular expressions of a consumer group are to be resolved."""


@dataclass(slots=True, eq=False)
class Timer:
    """One deadline of one owner; at most one entry of it in the heap counts, the one made at `queued_ms`."""

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

    def set(self, timer: Timer, deadline_ms: int) -> None:
        """Let `timer` fire at `deadline_ms` instead of whenever it was to fire."""
        timer.deadline_ms = deadline_ms
        queued_ms = timer.queued_ms
        if queued_ms is None or deadline_ms < queued_ms:
            self._push(timer, deadline_ms)

    def cancel(self, timer: Timer) -> None:
        """Let `timer` not fire; it may be set again."""
        timer.deadline_ms = None

    def next_deadline_ms(self) -> int | None:
        """Before this no timer fires; None when none is set. It may be too early; right after `pop_due` it is exact.

        To put the heap right each time would cost a heartbeat as much as all else that it does.
        """
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> Timer | None:
        """Take one timer whose deadline has come, the earliest first."""
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
