"""What is done when a result does not come in time: for many waits, few of which ever end so."""

import math
from collections import deque
from collections.abc import Callable
from typing import Any

import trio

from odradek.gateway.env.completion import Completion
from odradek.gateway.env.environment import Environment
from odradek.gateway.env.signals import Signal

_Wait = tuple[int, Completion[Any], Callable[[], None]]
"""The deadline, what should be settled by then, and what is called otherwise. A tuple: each Produce makes one."""


class Deadlines:
    """Calls back when a completion is not settled after its time. One task does it for the whole broker.

    Waits of the same length end in the order in which they began, so each length has a queue; of settled ones the queue
    is freed as others come. The task is woken for a deadline that is earlier than all others, and not for each wait.
    """

    def __init__(self, env: Environment, nursery: trio.Nursery) -> None:
        self._env = env
        self._queues: dict[int, deque[_Wait]] = {}
        self._wake_at_ms: float = math.inf
        self._earlier = Signal()
        nursery.start_soon(self._run)

    def watch(self, result: Completion[Any], timeout_ms: int, on_expiry: Callable[[], None]) -> None:
        """Call `on_expiry` in `timeout_ms` unless `result` is settled by then. It must not raise."""
        queue = self._queues.get(timeout_ms)
        if queue is None:
            queue = self._queues[timeout_ms] = deque()
        while queue and queue[0][1].settled:
            queue.popleft()
        deadline_ms = self._env.monotonic_ms() + timeout_ms
        queue.append((deadline_ms, result, on_expiry))
        if deadline_ms < self._wake_at_ms:
            self._wake_at_ms = deadline_ms
            self._earlier.wake()

    async def _run(self) -> None:
        while True:
            self._expire()
            await self._earlier.wait(max(self._wake_at_ms - self._env.monotonic_ms(), 0))

    def _expire(self) -> None:
        now_ms = self._env.monotonic_ms()
        for timeout_ms, queue in list(self._queues.items()):
            while queue and (queue[0][1].settled or queue[0][0] <= now_ms):
                _, result, on_expiry = queue.popleft()
                if not result.settled:
                    on_expiry()
            if not queue:
                del self._queues[timeout_ms]
        self._wake_at_ms = min([queue[0][0] for queue in self._queues.values()], default=math.inf)
