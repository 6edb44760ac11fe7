"""Simulated time of the cores' worlds: a heap of events, and random draws that the seed determines.

An event may belong to a process. It is dropped if its process has ended by then.
"""

import hashlib
import heapq
import random
from collections.abc import Callable, Iterator
from typing import Final, Protocol


class Process(Protocol):
    """The owner of events: each start has another `incarnation`."""

    alive: bool
    incarnation: int


Event = tuple[Process | None, int, Callable[[], object]]
"""Process, its incarnation, and the call."""
NUMBER_BITS: Final = 28
KEPT_LINES: Final = 1_000


class Trace:
    """The digest of all lines noted, which are hashed many at a time: that costs less than one by one."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=8)
        self._lines: list[str] = []

    def note(self, line: str) -> None:
        self._lines.append(line)
        if len(self._lines) > KEPT_LINES:
            self._add()

    @property
    def digest(self) -> str:
        self._add()
        return self._hash.hexdigest()

    def _add(self) -> None:
        self._hash.update("".join(self._lines).encode())
        self._lines.clear()


class EventQueue:
    """Events in the order of their times, then of their numbers, which increase with each call.

    `done` counts the events that ran. The heap has one integer for each event, the time above the number: integers are
    compared in half the time of tuples.
    """

    def __init__(self) -> None:
        self.now_us = 0
        self.steps = 0
        self.done = 0
        self.trace = Trace()
        self._heap: list[int] = []
        self._events: dict[int, Event] = {}

    @property
    def digest(self) -> str:
        return self.trace.digest

    def after(self, delay_us: int, call: Callable[[], object]) -> None:
        """Runs `call` after `delay_us`, independent of processes."""
        self.steps += 1
        at_us = self.now_us + delay_us if delay_us > 0 else self.now_us
        self._push(at_us, self.steps, (None, 0, call))

    def after_of(self, process: Process, delay_us: int, call: Callable[[], object]) -> None:
        """Runs `call` after `delay_us`, unless `process` has ended by then."""
        self.steps += 1
        at_us = self.now_us + delay_us if delay_us > 0 else self.now_us
        self._push(at_us, self.steps, (process, process.incarnation, call))

    def number(self) -> int:
        """Reserves the number of an event that may be put on the heap later, by `put`."""
        self.steps += 1
        return self.steps

    def put(self, process: Process, at_us: int, number: int, call: Callable[[], object]) -> None:
        """Runs `call` at that time, in the order of that number."""
        self._push(at_us, number, (process, process.incarnation, call))

    def _push(self, at_us: int, number: int, event: Event) -> None:
        key = at_us << NUMBER_BITS | number
        self._events[key] = event
        heapq.heappush(self._heap, key)

    def due(self, end_us: int) -> Iterator[tuple[int, Callable[[], object] | None]]:
        """Takes the events up to `end_us`, each at its time: its number, and its call, None if its process has ended.

        The caller makes each call before it takes the next event.
        """
        heap, after_last, take = self._heap, (end_us + 1) << NUMBER_BITS, self._events.pop
        while heap and heap[0] < after_last:
            key = heapq.heappop(heap)
            self.now_us, number = key >> NUMBER_BITS, key & (1 << NUMBER_BITS) - 1
            process, incarnation, call = take(key)
            if process is None or (process.incarnation == incarnation and process.alive):
                self.done += 1
                yield number, call
            else:
                yield number, None


class Timer:
    """The single timer of a process, which is set often, mostly to a later time, and seldom fires.

    So at most one event is on the heap that is due first; when it runs, an event for the latest set time is put there.
    """

    def __init__(self, queue: EventQueue, process: Process, call: Callable[[], object]) -> None:
        self._queue = queue
        self._process = process
        self._call = call
        self._due: tuple[int, int] | None = None
        self._on_heap: tuple[int, int] | None = None

    def set(self, at_us: int | None) -> None:
        """Fires at `at_us` and at no time set before; None for never."""
        if at_us is None:
            self._due = None
            return
        self._due = (at_us, self._queue.number())
        if self._on_heap is None or self._due < self._on_heap:
            self._put(self._due)

    def _put(self, due: tuple[int, int]) -> None:
        self._on_heap = due
        self._queue.put(self._process, *due, lambda: self._come(due))

    def _come(self, this: tuple[int, int]) -> None:
        if this != self._on_heap:
            return  # an earlier one was put there after it
        due, self._on_heap = self._due, None
        if due == this:
            self._due = None
            self._call()
        elif due is not None:
            self._put(due)


class Chance(random.Random):
    """Draws the same as `random.Random`, in less time."""

    def randint(self, a: int, b: int) -> int:
        """An integer from `a` to `b`."""
        width = b - a + 1
        bits = width.bit_length()
        drawn = self.getrandbits(bits)
        while drawn >= width:
            drawn = self.getrandbits(bits)
        return a + drawn
