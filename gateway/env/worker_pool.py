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


class _Worker:
    """One thread of the pool, and its next job. `given` is locked until there is one."""

    __slots__ = ("given", "job")

    def __init__(self, job: _Job) -> None:
        self.job: _Job | None = job
        self.given = threading.Lock()
        self.given.acquire()


class BlockingPool:
    """At most `threads` calls at once, the rest in the order of asking. To be used from one `trio.run`.

    Threads are started when needed, end when idle and are daemons: nothing has to be closed. A job is given to one
    idle thread, the one that was busy last, and wakes no other: a `SimpleQueue` for all threads wakes a second one for
    each job, which finds nothing and takes the interpreter from the first.
    """

    def __init__(self, threads: int) -> None:
        self._limit = threads
        self._waiting: deque[_Job] = deque()  # while all threads are busy
        self._idle: list[_Worker] = []
        self._done: deque[tuple[_Deliver, outcome.Outcome[Any]]] = deque()
        self._is_delivery_due = False
        self._threads = 0
        self._is_short_told = False
        self._mutex = threading.Lock()  # for what is above, but for `_done` and its flag
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
        job = call, deliver
        with self._mutex:
            if self._idle:
                idle = self._idle.pop()
                idle.job = job
                idle.given.release()
                return
            if self._threads == self._limit:
                self._waiting.append(job)
                return
            self._threads += 1
        self._start_thread(_Worker(job))

    def _start_thread(self, worker: _Worker) -> None:
        try:
            threading.Thread(target=self._work, args=(worker,), name="odradek-blocking", daemon=True).start()
        except RuntimeError as error:
            if not self._is_short_told:
                self._is_short_told = True
                log.warning("cannot start a thread cause=%s (raise ulimit -u and ulimit -v)", error)
            assert worker.job is not None
            with self._mutex:
                self._threads -= 1
                if self._threads:
                    self._waiting.append(worker.job)
                    return
            self._run(worker)  # it runs here: late, but it runs
            self._tell_loop()

    def _work(self, worker: _Worker) -> None:
        while True:
            self._run(worker)
            self._find_job(worker)  # before the result is told: the next call, made with it, finds this thread idle
            # Set before the loop is woken and cleared before it takes results, so that none is missed.
            if not self._is_delivery_due:
                self._is_delivery_due = True
                if not self._tell_loop():
                    return
            if not self._await_job(worker):
                return

    def _run(self, worker: _Worker) -> None:
        """Run its job, and refer to nothing of it afterwards."""
        assert worker.job is not None
        call, deliver = worker.job
        worker.job = None
        self._done.append((deliver, outcome.capture(call)))

    def _find_job(self, worker: _Worker) -> None:
        """Take the next job that waits, or be idle."""
        with self._mutex:
            if self._waiting:
                worker.job = self._waiting.popleft()
                worker.given.release()
            else:
                self._idle.append(worker)

    def _await_job(self, worker: _Worker) -> bool:
        """Wait until the worker has a job; False when the thread is to end."""
        if worker.given.acquire(timeout=IDLE_S):
            return True
        with self._mutex:
            if worker.job is not None:  # it came just now
                return worker.given.acquire()
            self._idle.remove(worker)
            self._threads -= 1
            return False

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
