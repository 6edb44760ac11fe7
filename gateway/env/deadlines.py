"""What is done when a result does not come in time: for many waits, few of which ever end so."""

import math
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

import trio

from odradek.gateway.env.completion import Completion
from odradek.gateway.env.environment import Environment
from odradek.gateway.env.signals import Signal

T = TypeVar("T")


class _Wait(Generic[T]):
    __slots__ = ("deadline_ms", "on_expiry", "result")

    def __init__(self, deadline_ms: int, result: Completion[T], on_expiry: Callable[[], None]) -> None:
        self.deadline_ms = deadline_ms
        self.result = result
        self.on_expiry = on_expiry


class Deadlines:
    """Calls back when a completion is not settled after its time. One task does it for the whole broker.

    Waits of the same length end in the order in which they began, so each length has a queue; of settled ones the queue
    is freed as others come. The task is woken for a deadline that is earlier than all others, and not for each wait.
    """

    def __init__(self, env: Environment, nursery: trio.Nursery) -> None:
        self._env = env
        self._queues: dict[int, deque[_Wait[object]]] = {}
        self._wake_at_ms: float = math.inf
        self._earlier = Signal()
        nursery.start_soon(self._run)

    def watch(self, result: Completion[T], timeout_ms: int, on_expiry: Callable[[], None]) -> None:
        """Call `on_expiry` in `timeout_ms` unless `result` is settled by then. It must not raise."""
        queue = self._queues.get(timeout_ms)
        if queue is None:
            queue = self._queues[timeout_ms] = deque()
        _drop_settled(queue)
        wait = _Wait(self._env.monotonic_ms() + timeout_ms, result, on_expiry)
        queue.append(wait)  # pyright: ignore[reportArgumentType]
        if wait.deadline_ms < self._wake_at_ms:
            self._wake_at_ms = wait.deadline_ms
            self._earlier.wake()

    async def _run(self) -> None:
        while True:
            self._expire()
            await self._earlier.wait(max(self._wake_at_ms - self._env.monotonic_ms(), 0))

    def _expire(self) -> None:
        now_ms = self._env.monotonic_ms()
        for timeout_ms, queue in list(self._queues.items()):
            while queue and (queue[0].result.settled or queue[0].deadline_ms <= now_ms):
                wait = queue.popleft()
                if not wait.result.settled:
                    wait.on_expiry()
            if not queue:
                del self._queues[timeout_ms]
        self._wake_at_ms = min([queue[0].deadline_ms for queue in self._queues.values()], default=math.inf)


def _drop_settled(queue: deque[_Wait[object]]) -> None:
    while queue and queue[0].result.settled:
        queue.popleft()
