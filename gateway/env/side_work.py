"""Long work that a client's request asks for: looking into many records, matching a regular expression.

It runs in worker threads, and only so many of each kind at once, so that there are always threads left for commits, and
one kind of request does not hold up another. All else waits in the order of asking.
"""

from collections.abc import Callable
from typing import TypeVar

import trio

from odradek.gateway.env.environment import Environment

T = TypeVar("T")


class SideWork:
    """Calls of one kind, `at_once` of them at the same time."""

    def __init__(self, env: Environment, at_once: int) -> None:
        self._env = env
        self._turns = trio.Semaphore(at_once)

    async def run(self, call: Callable[[], T]) -> T:
        """Run `call` in a worker thread and return its result, or raise what it raises.

        Cancellation: a call that has not begun is dropped; one that has begun is awaited.
        """
        async with self._turns:
            return await self._env.run_blocking(call)
