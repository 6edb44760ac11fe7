"""Waits that end at a moment of virtual time without Trio's cancel scopes, which cost more than all else of a wait.

Trio keeps its scopes by deadline in a heap that is private to it. What waits here stands in that heap in the place of a
scope, is due when a scope would be, and continues its task where a scope cancels it. So tasks run in the same order.
"""

import math
from importlib import import_module
from typing import Any, Final

import trio

_RUN: Final[Any] = getattr(import_module("trio._core._run"), "GLOBAL_RUN_CONTEXT")  # noqa: B009 - not exported


class TimedSignal:
    """Continues the one task that waits here at the next `wake`, or at a deadline; without one, the next wait returns.

    A wait that `is_shielded` ends when it is due, whatever is cancelled meanwhile.
    """

    __slots__ = ("_is_set", "_is_shielded", "_registered_deadline", "_task")

    def __init__(self, *, is_shielded: bool = False) -> None:
        self._is_set = False
        self._is_shielded = is_shielded
        self._registered_deadline = math.inf  # Trio looks here whether an entry of its heap still counts
        self._task: trio.lowlevel.Task | None = None

    def wake(self) -> None:
        """Continue the task that waits, or let the next wait return at once."""
        if self._task is None:
            self._is_set = True
        else:
            self._continue()

    async def wait(self, deadline: float = math.inf) -> None:
        """Wait for the next `wake`, but not after `deadline`. One task waits at a time."""
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
        """What Trio calls when the deadline has come."""
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
    """Sleep for all of that time, whatever is cancelled meanwhile."""
    if seconds > 0:
        await TimedSignal(is_shielded=True).wait(trio.current_time() + seconds)
    else:
        await trio.lowlevel.cancel_shielded_checkpoint()
