"""Worker threads for blocking calls, made for many short ones: durable commits.

Trio's own `to_thread` looks after context variables, limiters and cancellation for each call and wakes the loop once
for each result. Here a call costs a queue entry there and a place in a list back, and results that come in together
wake the loop once.
"""

import logging
import queue
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

IDLE_S: Final = 10.0
"""A thread that had nothing to do for so long ends."""


class BlockingPool:
    """At most `threads` calls at once, the rest in the order of asking. To be used from one `trio.run`.

    Threads are started when needed, end when idle and are daemons: nothing has to be closed.
    """

    def __init__(self, threads: int) -> None:
        self._limit = threads
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], _Deliver]] = queue.SimpleQueue()
        self._done: deque[tuple[_Deliver, outcome.Outcome[Any]]] = deque()
        self._is_delivery_due = False
        self._unfinished = 0  # calls that were handed in and not yet delivered; the Trio thread's
        self._threads = 0
        self._is_short_told = False
        self._mutex = threading.Lock()
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
        self._unfinished += 1
        with self._mutex:  # a thread that finds nothing to do ends under it: none ends past a job
            self._jobs.put((call, deliver))
            is_short_of_threads = self._threads < min(self._unfinished, self._limit)
            self._threads += is_short_of_threads
        if is_short_of_threads:
            self._start_thread()

    def _start_thread(self) -> None:
        try:
            threading.Thread(target=self._work, name="odradek-blocking", daemon=True).start()
        except RuntimeError as error:
            with self._mutex:
                self._threads -= 1
                has_others = self._threads > 0
            if not self._is_short_told:
                self._is_short_told = True
                log.warning("cannot start a thread cause=%s (raise ulimit -u and ulimit -v)", error)
            if not has_others:  # it runs here: late, but it runs
                call, deliver = self._jobs.get_nowait()
                self._done.append((deliver, outcome.capture(call)))
                self._tell_loop()

    def _work(self) -> None:
        while True:
            try:
                call, deliver = self._jobs.get(timeout=IDLE_S)
            except queue.Empty:
                if self._may_end():
                    return
                continue
            self._done.append((deliver, outcome.capture(call)))
            del call, deliver
            # Set before the loop is woken and cleared before it takes results, so that none is missed.
            if not self._is_delivery_due:
                self._is_delivery_due = True
                if not self._tell_loop():
                    return

    def _may_end(self) -> bool:
        with self._mutex:
            if not self._jobs.empty():
                return False
            self._threads -= 1
            return True

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
            self._unfinished -= 1
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
