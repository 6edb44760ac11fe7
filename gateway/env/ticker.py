"""Calls at the next scheduler tick, made from one task for the whole broker.

Starting a task costs more than a small commit; waking one that waits costs a third of that, and once for all the logs
that were written to in a tick.
"""

from collections.abc import Callable
from typing import Final

import trio

from odradek.gateway.env.wakeup import Wakeup

CALLS_AT_ONCE: Final = 200
"""How many calls are made before others get a turn; each may be a small commit, of some ten microseconds."""


class Ticker:
    """`soon(call)` runs `call` when every task that is runnable now has had its turn, in the order of asking.

    What a call raises ends the nursery: calls handle their own errors.
    """

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self._calls: list[Callable[[], None]] = []
        self._wakeup = Wakeup()
        nursery.start_soon(self._run)

    def soon(self, call: Callable[[], None]) -> None:
        """Run `call` at the next tick."""
        if not self._calls:
            self._wakeup.wake()
        self._calls.append(call)

    async def _run(self) -> None:
        while True:
            if not self._calls:
                await self._wakeup.sleep()
            calls, self._calls = self._calls, []
            for number, call in enumerate(calls, 1):
                call()
                if not number % CALLS_AT_ONCE:
                    await trio.lowlevel.checkpoint()
