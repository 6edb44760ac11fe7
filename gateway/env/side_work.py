"""Long work for a client's request: reading many records, matching a regular expression.

It runs in worker threads. The number of calls of each kind that run at once is bounded, so that threads are always left
for commits and one kind of request does not hold up another. Other calls wait in the order in which they were made.
"""

from collections.abc import Callable
from typing import TypeVar

import trio

from odradek.gateway.env.environment import Environment

T = TypeVar("T")


class SideWork:
    """Calls of one kind, of which `at_once` run at the same time."""

    def __init__(self, env: Environment, at_once: int) -> None:
        self._env = env
        self._turns = trio.Semaphore(at_once)

    async def run(self, call: Callable[[], T]) -> T:
        """Run `call` in a worker thread and return its result, or raise its exception.

        Cancellation: a call that has not begun is dropped; one that has begun is awaited.
        """
        async with self._turns:
            return await self._env.run_blocking(call)
