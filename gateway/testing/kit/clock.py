"""The time of a test's broker: that of the machine, and ahead of it by as much as the test asks for.

`Clock` is one number, the lead, shared by all that tells a broker the time: its wall clock and monotonic clock
(`AheadEnvironment`) and the deadlines of its Trio loop (`trio.run(clock=…)`). Between calls of `advance` time passes as
it does everywhere.

`advance` does not jump once. Like the virtual clock of the simulation it goes from deadline to deadline: when no task
can run and no blocking call is under way, it jumps to the next deadline of the loop, and lets what became due be done.
So periodic tasks run as often as they would have, and a time-out never ends an operation of the broker that was only
waiting for its disk. A long time would have too many deadlines: a step is at least a `MOST_STEPS`th of the whole.
"""

import math
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from importlib import import_module
from typing import Final, TypeVar

import outcome
import trio

from odradek.gateway.env.environment import Environment
from odradek.gateway.env.outside_calls import OutsideCalls, RunEndedError
from odradek.gateway.testing.kit.wrapped import WrappedEnvironment

T = TypeVar("T")

MOST_STEPS: Final = 1_000
"""The number of steps in which a time passes, at most. A step takes a fraction of a millisecond."""
SETTLE_S: Final = 1.0
"""The longest wait, in real time, for a broker that clients keep busy to have nothing left to do."""
_NS_PER_MS: Final = 1_000_000


class Clock(trio.abc.Clock):
    """The machine's monotonic clock plus a lead, as a clock of Trio. A broker that starts again keeps it."""

    def __init__(self) -> None:
        self.ahead_ms = 0
        self._calls: OutsideCalls | None = None
        self._environment: AheadEnvironment | None = None

    @property
    def now_ms(self) -> int:
        """The broker's wall clock: milliseconds since the epoch. From any thread."""
        return time.time_ns() // _NS_PER_MS + self.ahead_ms

    def start_clock(self) -> None:
        """Called by Trio when its loop starts; the clock runs already."""

    def current_time(self) -> float:
        """Seconds, on the clock that `AheadEnvironment.monotonic_ms` reads."""
        return time.monotonic_ns() / 1e9 + self.ahead_ms / 1000

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """The seconds until `deadline` without a call of `advance`."""
        return deadline - self.current_time()

    def around(self, environment: Environment) -> "AheadEnvironment":
        """The environment of a broker that starts, with this clock. Called in the broker's loop."""
        self._calls = OutsideCalls()
        self._environment = AheadEnvironment(environment, self)
        return self._environment

    def advance(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0, milliseconds: float = 0
    ) -> None:
        """Let time pass for the broker, and return when what became due meanwhile has been done.

        While the broker does not run, only its clock is put forward. Clients' clocks are not: to the broker it is as if
        they had done nothing for this time. One thread at a time may call it. Raises ValueError for a negative time.
        """
        passing = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds)
        if passing < timedelta(0):
            raise ValueError("time does not go back")
        until_ms = self.ahead_ms + passing // timedelta(milliseconds=1)
        import_module("trio.testing")  # here, not in the loop: it takes 0.2 s, since it imports pytest
        try:
            if self._calls is not None:
                self._calls.run(partial(self._pass, until_ms))
        except RunEndedError:
            pass  # it was stopped, and will start at the later time
        self.ahead_ms = until_ms

    async def _pass(self, until_ms: int) -> None:
        """In the broker's loop: go from deadline to deadline until it is `until_ms` ahead."""
        at_least_ms = math.ceil((until_ms - self.ahead_ms) / MOST_STEPS)
        await self._settle()
        while self.ahead_ms < until_ms:
            self.ahead_ms += min(until_ms - self.ahead_ms, max(_next_deadline_ms(), at_least_ms, 1))
            await self._settle()

    async def _settle(self) -> None:
        """Return when no task of the broker can run and no blocking call is under way, at the latest in `SETTLE_S`."""
        from trio.testing import wait_all_tasks_blocked

        assert self._environment is not None
        with trio.move_on_after(SETTLE_S):
            await wait_all_tasks_blocked()
            while self._environment.calls_under_way:
                await self._environment.calls_ended()
                await wait_all_tasks_blocked()


def _next_deadline_ms() -> int:
    """The time until the loop's next deadline; a day if there is none."""
    seconds = trio.lowlevel.current_statistics().seconds_to_next_deadline
    return math.ceil(min(seconds, 86_400) * 1000)


class AheadEnvironment(WrappedEnvironment):
    """An environment whose clocks are ahead; it counts the blocking calls under way."""

    def __init__(self, inner: Environment, clock: Clock) -> None:
        super().__init__(inner)
        self._clock = clock
        self.calls_under_way = 0
        self._ended: trio.Event | None = None

    def monotonic_ms(self) -> int:
        """See `Environment.monotonic_ms`."""
        return super().monotonic_ms() + self._clock.ahead_ms

    def monotonic_us(self) -> int:
        """See `Environment.monotonic_us`."""
        return super().monotonic_us() + self._clock.ahead_ms * 1000

    def wall_ms(self) -> int:
        """See `Environment.wall_ms`."""
        return super().wall_ms() + self._clock.ahead_ms

    async def run_blocking(self, call: Callable[[], T]) -> T:
        """See `Environment.run_blocking`."""
        self.calls_under_way += 1
        try:
            return await super().run_blocking(call)
        finally:
            self._count_ended()

    def start_blocking(
        self, nursery: trio.Nursery, call: Callable[[], T], deliver: Callable[[outcome.Outcome[T]], object]
    ) -> None:
        """See `Environment.start_blocking`."""

        def deliver_counted(result: outcome.Outcome[T]) -> None:
            self._count_ended()
            deliver(result)

        self.calls_under_way += 1
        super().start_blocking(nursery, call, deliver_counted)

    async def calls_ended(self) -> None:
        """Wait until no blocking call is under way."""
        if self.calls_under_way:
            self._ended = self._ended or trio.Event()
            await self._ended.wait()

    def _count_ended(self) -> None:
        self.calls_under_way -= 1
        if not self.calls_under_way and self._ended is not None:
            self._ended.set()
            self._ended = None
