"""Worker threads for blocking calls, optimized for many short ones such as durable commits.

Trio's `to_thread` handles context variables, limiters and cancellation for each call and wakes the loop once for each
result. Here a call costs one queue entry to the thread and one list entry back, and results that arrive together wake
the loop once.
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
"""A thread that has had no job for this time ends."""


class BlockingPool:
    """Runs at most `threads` calls at once, the others in the order of submission. Use it from one `trio.run` only.

    Threads are started when needed, end when idle and are daemons, so nothing has to be closed. One thread is woken at
    a time, the one that was busy last; when it has taken its job and more jobs wait, it wakes the next: many threads
    woken at once compete for the interpreter lock. A `SimpleQueue` is similar, but wakes one more thread for each job,
    which finds no job and takes the interpreter lock from the working thread.
    """

    def __init__(self, threads: int) -> None:
        self._limit = threads
        self._jobs: deque[_Job] = deque()
        self._idle: list[threading.Lock] = []  # for each thread without a job, the lock that is released to wake it
        self._is_waking = False  # a thread was woken or started, and has not yet taken its job
        self._threads = 0
        self._mutex = threading.Lock()  # guards the fields above
        self._done: deque[tuple[_Deliver, outcome.Outcome[Any]]] = deque()
        self._is_delivery_due = False
        self._is_shortage_logged = False
        self._token: trio.lowlevel.TrioToken | None = None

    async def run(self, call: Callable[[], T]) -> T:
        """Run `call` in a thread. A checkpoint; once submitted, the call is awaited even if the task is cancelled."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self.start(call, partial(trio.lowlevel.reschedule, trio.lowlevel.current_task()))
        return cast("T", await trio.lowlevel.wait_task_rescheduled(_never_abort))

    def start(self, call: Callable[[], T], deliver: Callable[[outcome.Outcome[T]], object]) -> None:
        """Run `call` in a thread, then call `deliver` with its outcome on the Trio thread, unless the run has ended.

        `deliver` must not raise: there is no task to receive the exception.
        """
        if self._token is None:
            self._token = trio.lowlevel.current_trio_token()
        with self._mutex:
            self._jobs.append((call, deliver))
            is_short_of_threads = self._wake_one()
        if is_short_of_threads:
            self._start_thread()

    def _wake_one(self) -> bool:
        """Under the mutex: make a thread take a waiting job. Returns True if a new thread has to be started for it."""
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
            if job is not None:  # run the job in this thread instead, although that blocks the loop
                self._run(*job)
                self._wake_loop()

    def _work(self) -> None:
        wake = threading.Lock()
        wake.acquire()
        job = self._first_job(wake)
        while True:
            if job is not None:
                self._run(*job)
                # before delivery, so that calls submitted by `deliver` find this thread idle
                job = self._next_job(wake)
                # Set before the loop is woken and cleared before it takes results, so that none is missed.
                if not self._is_delivery_due:
                    self._is_delivery_due = True
                    if not self._wake_loop():
                        return
            elif wake.acquire(timeout=IDLE_S):
                job = self._first_job(wake)
            elif self._may_end(wake):
                return

    def _first_job(self, wake: threading.Lock) -> _Job | None:
        """Take a job as a woken thread, and wake the next thread."""
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
        """Under the mutex: take the next job; a thread that finds none is added to the idle ones."""
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
        """Run a job in its own frame, so that nothing refers to its objects while the thread waits for the next."""
        self._done.append((deliver, outcome.capture(call)))

    def _wake_loop(self) -> bool:
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
    """Run `call` in a new thread and wait for it, also inside a Trio run. Raises what it raises."""
    outcomes: list[outcome.Outcome[T]] = []
    thread = threading.Thread(target=lambda: outcomes.append(outcome.capture(call)))
    thread.start()
    thread.join()
    return outcomes[0].unwrap()
