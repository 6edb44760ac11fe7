"""Worker threads for blocking calls, made for many short ones: durable commits.

Trio's own `to_thread` looks after context variables, limiters and cancellation for each call and wakes the loop once
for each result. Here a call costs a queue entry there and a place in a list back, and results that come in together
wake the loop once.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar, cast

import outcome
import trio

log = logging.getLogger(__name__)

T = TypeVar("T")
_Deliver = Callable[[outcome.Outcome[Any]], object]
_Job = tuple[Callable[[], Any], _Deliver]

IDLE_S: Final = 10.0
"""A thread that had nothing to do for so long ends."""


class BlockingPool:
    """At most `threads` calls at once, the rest in the order of asking. To be used from one `trio.run`.

    Threads are started when needed, end when idle and are daemons: nothing has to be closed. One thread is woken at a
    time, the one that was busy last, and wakes the next when it has taken its job and more of them wait: many at once
    take the interpreter from each other. A `SimpleQueue` does the same, but wakes one thread more for each job, which
    finds nothing, and takes the interpreter from the one that works.
    """

    def __init__(self, threads: int) -> None:
        self._limit = threads
        self._jobs: deque[_Job] = deque()
        self._idle: list[threading.Lock] = []  # of each thread without a job the lock that is released to wake it
        self._is_waking = False  # a thread was woken or started, and has not yet looked for its job
        self._threads = 0
        self._mutex = threading.Lock()  # for what is above
        self._done: deque[tuple[_Deliver, outcome.Outcome[Any]]] = deque()
        self._is_delivery_due = False
        self._is_shortage_logged = False
        self._token: trio.lowlevel.TrioToken | None = None

    async def run(self, call: Callable[[], T]) -> T:
        """Run `call` in a thread. A checkpoint; once handed in, the call is waited for whatever is cancelled."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self.start(call, partial(trio.lowlevel.reschedule, trio.lowlevel.current_task()))
        return cast("T", await trio.lowlevel.wait_task_rescheduled(_never_abort))

    def start(self, call: Callable[[], T], deliver: Callable[[outcome.Outcome[T]], object]) -> None:
        """Run `call` in a thread and then `deliver` with what came of it on the Trio thread, unless the run has ended.

        `deliver` must not raise: no task is there to take it.
        """
        if self._token is None:
            self._token = trio.lowlevel.current_trio_token()
        with self._mutex:
            self._jobs.append((call, deliver))
            is_short_of_threads = self._wake_one()
        if is_short_of_threads:
            self._start_thread()

    def _wake_one(self) -> bool:
        """Under the mutex: see that a thread looks for a job that waits. True when one has to be started for it."""
        if self._is_waking or not self._jobs:
            return False
        if self._idle:
            self._is_waking = True
            self._idle.pop().release()
            return False
        is_short_of_threads = self._threads < self._limit
        self._is_waking = is_short_of_threads
        self._threads += is_short_of_threads
        return is_short_of_threads

    def _start_thread(self) -> None:
        try:
            threading.Thread(target=self._work, name="odradek-blocking", daemon=True).start()
        except RuntimeError as error:
            with self._mutex:
                self._is_waking = False
                self._threads -= 1
                job = None if self._threads else self._jobs.popleft()
            if not self._is_shortage_logged:
                self._is_shortage_logged = True
                log.warning("cannot start a thread cause=%s (raise ulimit -u and ulimit -v)", error)
            if job is not None:  # it runs here: late, but it runs
                self._run(*job)
                self._tell_loop()

    def _work(self) -> None:
        wake = threading.Lock()
        wake.acquire()
        job = self._first_job(wake)
        while True:
            if job is not None:
                self._run(*job)
                job = self._next_job(wake)  # first, so that what is done with the result finds this thread idle
                # Set before the loop is woken and cleared before it takes results, so that none is missed.
                if not self._is_delivery_due:
                    self._is_delivery_due = True
                    if not self._tell_loop():
                        return
            elif wake.acquire(timeout=IDLE_S):
                job = self._first_job(wake)
            elif self._may_end(wake):
                return

    def _first_job(self, wake: threading.Lock) -> _Job | None:
        """What a thread does that was woken: take a job, and wake the next thread."""
        with self._mutex:
            self._is_waking = False
            job = self._take(wake)
            is_short_of_threads = self._wake_one()
        if is_short_of_threads:
            self._start_thread()
        return job

    def _next_job(self, wake: threading.Lock) -> _Job | None:
        with self._mutex:
            return self._take(wake)

    def _take(self, wake: threading.Lock) -> _Job | None:
        """Under the mutex: take the next job; a thread that finds none is idle from now on."""
        if self._jobs:
            return self._jobs.popleft()
        self._idle.append(wake)
        return None

    def _may_end(self, wake: threading.Lock) -> bool:
        with self._mutex:
            if wake not in self._idle:
                return False  # it was woken just now
            self._idle.remove(wake)
            self._threads -= 1
            return True

    def _run(self, call: Callable[[], Any], deliver: _Deliver) -> None:
        """A call of its own, so that nothing refers to what the job referred to while the next is waited for."""
        self._done.append((deliver, outcome.capture(call)))

    def _tell_loop(self) -> bool:
        assert self._token is not None
        try:
            self._token.run_sync_soon(self._deliver)
        except trio.RunFinishedError:
            return False  # the loop has ended, and no task waits any more
        return True

    def _deliver(self) -> None:
        self._is_delivery_due = False
        while self._done:
            deliver, result = self._done.popleft()
            deliver(result)


def _never_abort(_raise_cancel: Callable[[], None]) -> trio.lowlevel.Abort:
    return trio.lowlevel.Abort.FAILED


def in_own_thread(call: Callable[[], T]) -> T:
    """Run `call` in a new thread and wait for it, whatever this thread runs. Raises what it raises."""
    outcomes: list[outcome.Outcome[T]] = []
    thread = threading.Thread(target=lambda: outcomes.append(outcome.capture(call)))
    thread.start()
    thread.join()
    return outcomes[0].unwrap()
