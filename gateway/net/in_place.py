"""Waits for one descriptor in the place of Trio's loop, for as long as that has nothing else to do.

Theory of operation
-------------------
A turn of Trio's loop costs forty calls of Python functions and three system calls, nearly half of a small request.
While one task alone has something to do it may as well wait itself: for its descriptor, and for everything that could
wake another task. That is known to be complete:

- *Runnable tasks.* An instrument counts what is scheduled since the loop last waited. If that is one task, it is the
  one that runs now. As soon as there is another, the loop takes its turn.
- *Deadlines.* The wait ends with the first of them, or when Trio's own would have ended.
- *Descriptors, threads and signals.* All of them make Trio's own epoll object readable, which is waited for, too.

Trio has no public names for its epoll object and its first deadline. Where the private ones are missing, where Trio
runs as a guest of another loop, or by a clock of its own, nothing is waited for in place, and each wait takes a turn.
"""

import math
import select
from collections.abc import Callable
from typing import Any, Final

import trio

TURNS_AFTER_OTHERS: Final = 32
"""For how many waits the loop takes its turns after something else than the descriptor has ended one in place.

Waiting in place is in vain then. Where threads commit, each request would end one.
"""


class InPlaceWait(trio.abc.Instrument):
    """One task's waits for the descriptor `number`. To be made, used and closed in one `trio.run`.

    `on_turn(timeout_s)` is called when a wait in place ends, as at the begin of a turn of Trio's.
    """

    def __init__(self, number: int, on_turn: Callable[[float], None]) -> None:
        self._number = number
        self._on_turn = on_turn
        self.scheduled = 0  # how many tasks since the loop waited; no property, since each wait looks at it
        self.turns_left = 0
        self._until_s = -math.inf
        self._now_s = trio.lowlevel.current_clock().current_time
        self._epoll = select.epoll()
        self._loop = _Loop()
        if self._loop.number is not None:
            self._epoll.register(number, select.EPOLLIN)
            self._epoll.register(self._loop.number, select.EPOLLIN)
            trio.lowlevel.add_instrument(self)

    def before_io_wait(self, timeout: float) -> None:
        """The loop is about to wait; with a task that is runnable already it does not."""
        self.scheduled = 0 if timeout > 0 else 2
        self._until_s = self._now_s() + timeout

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        """One more task is runnable."""
        del task
        self.scheduled += 1

    def wait_in_place(self) -> bool:
        """Wait until the descriptor is readable, which is True, or something else is for Trio's loop to do.

        Only while `scheduled` is 1 and `turns_left` 0: the running task alone has something to do.
        """
        left_s = min(self._loop.next_deadline_s(), self._until_s) - self._now_s()
        if left_s <= 0:
            return False
        readable = self._epoll.poll(left_s, 2)
        self._on_turn(left_s)
        if len(readable) == 1 and readable[0][0] == self._number:
            return True
        if readable:
            self.turns_left = TURNS_AFTER_OTHERS
        return False

    def close(self) -> None:
        """Forget the descriptor. Idempotent."""
        if not self._epoll.closed:
            self._epoll.close()
            if self._loop.number is not None:
                trio.lowlevel.remove_instrument(self)


class _Loop:
    """What is known of the running loop: the descriptor of its epoll object, None when it must wait by itself."""

    def __init__(self) -> None:
        # Trio's private parts are looked for one by one, and may be missing.
        inside: Any = getattr(trio._core, "_run", None)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        runner = getattr(getattr(inside, "GLOBAL_RUN_CONTEXT", None), "runner", None)
        epoll = getattr(getattr(runner, "io_manager", None), "_epoll", None)
        deadlines = getattr(runner, "deadlines", None)
        has_system_clock = isinstance(trio.lowlevel.current_clock(), getattr(inside, "SystemClock", ()))
        is_own = has_system_clock and not getattr(runner, "is_guest", True) and hasattr(deadlines, "next_deadline")
        self.number = epoll.fileno() if is_own and isinstance(epoll, select.epoll) else None
        self.next_deadline_s: Callable[[], float] = getattr(deadlines, "next_deadline", lambda: -math.inf)
