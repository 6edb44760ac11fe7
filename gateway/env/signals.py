"""Wakes tasks (`Signal`, `Condition`, `Watchable`), and makes calls at the next tick (`Ticker`)."""

import math
from collections.abc import Callable
from typing import Final

import trio

CALLS_AT_ONCE: Final = 200
"""The number of calls made before other tasks are scheduled; each may be a small commit of some ten microseconds."""


class Signal:
    """Wakes the one task that waits here. If no task waits, the next wait returns at once.

    It costs a third of a `trio.Event`, which supports many waiting tasks but can be used only once.
    """

    __slots__ = ("_is_set", "_task")

    def __init__(self) -> None:
        self._is_set = False
        self._task: trio.lowlevel.Task | None = None

    def wake(self) -> None:
        """Wake the waiting task; if there is none, the next wait returns at once."""
        task, self._task = self._task, None
        if task is None:
            self._is_set = True
        else:
            trio.lowlevel.reschedule(task)

    async def wait(self, timeout_ms: float = math.inf) -> bool:
        """Return True at the next `wake`, or at once after one that found no task; False after `timeout_ms`.

        One task waits at a time. Cancellation ends the wait.
        """
        assert self._task is None, "a task waits here already"
        if self._is_set:
            self._is_set = False
            await trio.lowlevel.checkpoint()
            return True
        if timeout_ms == math.inf:
            await self._sleep()
            return True
        with trio.move_on_after(timeout_ms / 1000) as scope:
            await self._sleep()
        return not scope.cancelled_caught

    async def _sleep(self) -> None:
        self._task = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(self._abort)

    def _abort(self, _raise_cancel: object) -> trio.lowlevel.Abort:
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED


class Condition:
    """Wakes tasks that wait for a change of state: a task checks the state, calls `wait`, and checks again.

    A task must not await anything between checking and waiting; so it misses no change. While no task waits, there is
    no event, and `notify` makes none.
    """

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event: trio.Event | None = None

    def notify(self) -> None:
        """Wake all waiting tasks: the state has changed."""
        event, self._event = self._event, None
        if event is not None:
            event.set()

    async def wait(self) -> None:
        """Return at the next `notify`."""
        if self._event is None:
            self._event = trio.Event()
        await self._event.wait()


class Mark(Signal):
    """Watches one of several objects for the task that waits at `signal`: `wake` adds `number` to `woken`."""

    __slots__ = ("_number", "_signal", "_woken")

    def __init__(self, signal: Signal, woken: set[int], number: int) -> None:
        super().__init__()
        self._signal = signal
        self._woken = woken
        self._number = number

    def wake(self) -> None:
        """Record in `woken` which object has changed, and wake the task."""
        self._woken.add(self._number)
        self._signal.wake()


class Watchable:
    """Something that several tasks watch for changes, such as a log that grows."""

    __slots__ = ("watchers",)

    def __init__(self) -> None:
        # A dict, not a set, so that tasks wake in the order in which they were added, in every run of a simulation.
        self.watchers: dict[Signal, None] = {}

    def watch(self, signal: Signal) -> None:
        """Wake `signal` at every `notify` until it is unwatched.

        Call this before checking the state and waiting, so that no change is missed.
        """
        self.watchers[signal] = None

    def unwatch(self, signal: Signal) -> None:
        """Stop waking `signal`."""
        self.watchers.pop(signal, None)

    def notify(self) -> None:
        """Wake all watchers."""
        for signal in self.watchers:
            signal.wake()


class Ticker:
    """`soon(call)` runs `call` when every task that is now runnable has run, in the order of the calls.

    One task makes the calls for the whole broker. Starting a task costs more than a small commit; waking one costs a
    third of that, once for all the logs that were written to in a tick. The task that serves the connections schedules
    most of the calls: it collects them (`is_gathering`) and runs them itself at the end of its step, which saves a turn
    of the loop. An exception of a call ends the nursery, so calls handle their own errors.
    """

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self._calls: list[Callable[[], None]] = []
        self.is_gathering = False  # set by the running task: it makes the calls itself, until it has to wait
        self._work = Signal()
        nursery.start_soon(self._run)

    def soon(self, call: Callable[[], None]) -> None:
        """Run `call` at the next tick, or when the task that collects calls runs them."""
        if not self._calls and not self.is_gathering:
            self._work.wake()
        self._calls.append(call)

    def make_gathered(self) -> None:
        """Run the collected calls now, or leave them to the ticker's task if there are more than `CALLS_AT_ONCE`."""
        self.is_gathering = False
        if not self._calls:
            return
        if len(self._calls) > CALLS_AT_ONCE:
            self._work.wake()
            return
        calls, self._calls = self._calls, []
        for call in calls:
            call()

    def leave_gathered(self) -> None:
        """Leave the collected calls to the next tick: the task that collected them has to wait."""
        self.is_gathering = False
        if self._calls:
            self._work.wake()

    async def _run(self) -> None:
        while True:
            await self._work.wait()
            calls, self._calls = self._calls, []
            for number, call in enumerate(calls, 1):
                call()
                if not number % CALLS_AT_ONCE:
                    await trio.lowlevel.checkpoint()
