"""Waits with a deadline in virtual time and without Trio's cancel scopes, which are the largest cost of a wait.

Trio keeps its scopes by deadline in a private heap. A `TimedSignal` is in that heap in place of a scope: at its
deadline it continues its task where a scope would cancel it. So tasks run in the same order as with scopes.
"""

import math
from importlib import import_module
from typing import Any, Final

import trio

_RUN: Final[Any] = getattr(import_module("trio._core._run"), "GLOBAL_RUN_CONTEXT")  # noqa: B009 - not exported


class TimedSignal:
    """Continues the one waiting task at the next `wake` or a deadline; a `wake` without one ends the next wait.

    If `is_shielded`, cancellation does not end a wait.
    """

    __slots__ = ("_is_set", "_is_shielded", "_registered_deadline", "_task")

    def __init__(self, *, is_shielded: bool = False) -> None:
        self._is_set = False
        self._is_shielded = is_shielded
        self._registered_deadline = math.inf  # Trio reads this to check whether a heap entry is current
        self._task: trio.lowlevel.Task | None = None

    def wake(self) -> None:
        """Continue the waiting task, or let the next wait return at once."""
        if self._task is None:
            self._is_set = True
        else:
            self._continue()

    async def wait(self, deadline: float = math.inf) -> None:
        """Wait for the next `wake`, at most until `deadline`. Only one task may wait at a time."""
        assert self._task is None, "a task waits here already"
        if self._is_set:
            self._is_set = False
            await trio.lowlevel.checkpoint()
            return
        self._task = trio.lowlevel.current_task()
        if deadline != math.inf:
            self._registered_deadline = deadline
            _RUN.runner.deadlines.add(deadline, self)
        await trio.lowlevel.wait_task_rescheduled(self._abort)

    def _cancel(self, _reason: object) -> None:
        """Called by Trio at the deadline."""
        self._continue()

    def _continue(self) -> None:
        task = self._task
        assert task is not None
        self._forget()
        trio.lowlevel.reschedule(task)

    def _abort(self, _raise_cancel: object) -> trio.lowlevel.Abort:
        if self._is_shielded:
            return trio.lowlevel.Abort.FAILED
        self._forget()
        return trio.lowlevel.Abort.SUCCEEDED

    def _forget(self) -> None:
        self._task = None
        deadline, self._registered_deadline = self._registered_deadline, math.inf
        if deadline != math.inf:
            _RUN.runner.deadlines.remove(deadline, self)


async def sleep_shielded(seconds: float) -> None:
    """Sleep for the whole time, even if cancelled."""
    if seconds > 0:
        await TimedSignal(is_shielded=True).wait(trio.current_time() + seconds)
    else:
        await trio.lowlevel.cancel_shielded_checkpoint()
