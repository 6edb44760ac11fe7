"""Deadlines of many waits of which few expire: calls back when a result is not there in time."""

import math
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

import trio

from odradek.gateway.env.environment import Environment
from odradek.gateway.env.signals import Signal

SWEEP_FROM: Final = 256
"""The least number of waits in a queue before it is searched for waits that have ended."""


class Awaited(Protocol):
    """Something awaited with a deadline: a `Completion`, or another object that reports whether the wait is over."""

    @property
    def settled(self) -> bool:
        """True once it has completed or is no longer awaited; it never becomes False again."""
        ...


_Wait = tuple[int, Awaited, Callable[[], None]]
"""The deadline, the awaited object, and the call to make on expiry. A tuple, because each Produce makes one."""


class _Queue:
    """The waits with one time-out, in the order of their beginning, which is also the order of their deadlines."""

    __slots__ = ("waits",)

    def __init__(self) -> None:
        self.waits: deque[_Wait] = deque()

    def add(self, new: _Wait) -> None:
        """Add a wait."""
        waits = self.waits
        while waits and waits[0][1].settled:
            waits.popleft()
        waits.append(new)

    def sweep(self) -> int:
        """Remove the waits that have ended; returns the number of the others."""
        waits = self.waits
        is_open = [wait for wait in waits if not wait[1].settled]
        waits.clear()  # kept as the same object, since `_expire` may be iterating over it
        waits.extend(is_open)
        return len(is_open)


class Deadlines:
    """Calls back when a result has not arrived by its deadline. One task serves the whole broker.

    Waits with the same time-out expire in the order in which they began, so each time-out has a queue. Settled waits
    are removed from a queue when others are added. The task is woken only for a deadline that is earlier than all
    others, and not for each wait: a Trio time-out for each wait would cost a tenth of a small Fetch.
    """

    def __init__(self, env: Environment, nursery: trio.Nursery) -> None:
        self._env = env
        self._queues: dict[int, _Queue] = {}
        self._added = 0  # since the last sweep, and those that it has kept
        self._sweep_at = SWEEP_FROM
        self._wake_at_ms: float = math.inf
        self._earlier = Signal()
        nursery.start_soon(self._run)

    def watch(self, result: Awaited, timeout_ms: int, on_expiry: Callable[[], None]) -> None:
        """Call `on_expiry` in `timeout_ms` unless `result` is settled by then. It must not raise."""
        self._added += 1
        if self._added >= self._sweep_at:
            self._sweep()
        queue = self._queues.get(timeout_ms)
        if queue is None:
            queue = self._queues[timeout_ms] = _Queue()
        deadline_ms = self._env.monotonic_ms() + timeout_ms
        queue.add((deadline_ms, result, on_expiry))
        if deadline_ms < self._wake_at_ms:
            self._wake_at_ms = deadline_ms
            self._earlier.wake()

    def _sweep(self) -> None:
        kept = 0
        for timeout_ms, queue in list(self._queues.items()):
            kept += queue.sweep()
            if not queue.waits:
                del self._queues[timeout_ms]
        self._added, self._sweep_at = kept, 2 * kept + SWEEP_FROM

    async def _run(self) -> None:
        while True:
            self._expire()
            await self._earlier.wait(max(self._wake_at_ms - self._env.monotonic_ms(), 0))

    def _expire(self) -> None:
        now_ms = self._env.monotonic_ms()
        for timeout_ms, queue in list(self._queues.items()):
            waits = queue.waits
            while waits and (waits[0][1].settled or waits[0][0] <= now_ms):
                _, result, on_expiry = waits.popleft()
                if not result.settled:
                    on_expiry()
            if not waits and self._queues.get(timeout_ms) is queue:  # a sweep may have removed it
                del self._queues[timeout_ms]
        self._wake_at_ms = min([queue.waits[0][0] for queue in self._queues.values()], default=math.inf)
