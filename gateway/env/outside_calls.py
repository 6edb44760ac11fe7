"""Calls from other threads into a Trio run: the other thread waits for the result, in a time limit."""

import threading
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar, cast

import outcome
import trio

T = TypeVar("T")


class RunEndedError(RuntimeError):
    """The Trio run has ended, or ends before the call has returned."""


class OutsideCalls:
    """Runs asynchronous functions in the Trio run in which it was made, for callers in other threads."""

    def __init__(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._thread = threading.get_ident()

    def run(self, function: Callable[[], Awaitable[T]], timeout_s: float | None = None) -> T:
        """Run `function` on the Trio thread, and wait for its result. Raises what it raises.

        It may be called inside another Trio or asyncio run, which it blocks. A function that does not return within
        `timeout_s` is cancelled, and TimeoutError is raised; so is one whose caller is interrupted. Raises
        RunEndedError if the run has ended or ends meanwhile, RuntimeError if this is the Trio thread itself.
        """
        if threading.get_ident() == self._thread:
            raise RuntimeError("called from the broker's own thread, which would wait for itself: call it outside")
        call = _Call(function)
        try:
            self._token.run_sync_soon(call.start)
            is_ended = call.ended.wait(timeout_s)
        except trio.RunFinishedError:
            raise RunEndedError("it has ended") from None
        except BaseException:
            self.begin(call.scope.cancel)
            raise
        if not is_ended:
            self.begin(call.scope.cancel)
            raise TimeoutError(f"no result within {timeout_s} s")
        return call.result()

    def begin(self, function: Callable[[], object]) -> None:
        """Run `function` on the Trio thread soon, from any thread, also from that one; nothing if the run has ended.

        It must not raise.
        """
        try:
            self._token.run_sync_soon(function)
        except trio.RunFinishedError:
            return


class _Call(Generic[T]):
    def __init__(self, function: Callable[[], Awaitable[T]]) -> None:
        self._function = function
        self._outcome: outcome.Outcome[T] | None = None
        self.ended = threading.Event()
        self.scope = trio.CancelScope()

    def start(self) -> None:
        """Start the call's task, on the Trio thread."""
        try:
            trio.lowlevel.spawn_system_task(self._run)
        except RuntimeError:  # the run is ending, and begins no task any more
            self.ended.set()

    async def _run(self) -> None:
        try:
            with self.scope:
                self._outcome = await _captured(self._function)
        finally:
            self.ended.set()

    def result(self) -> T:
        """What the function has returned or raised."""
        if self._outcome is None:  # cancelled by the end of the run
            raise RunEndedError("it ended during the call")
        return self._outcome.unwrap()


async def _captured(function: Callable[[], Awaitable[T]]) -> outcome.Outcome[T]:
    """The outcome of `function`. Raises only what ends the task: a system task that raises ends the whole run."""
    result = await outcome.acapture(function)
    if not isinstance(result, outcome.Error):
        return result
    error: BaseException | None = result.error
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        error = group.split(trio.Cancelled)[1]  # None if it contains nothing else
    elif isinstance(error, trio.Cancelled):
        error = None
    if error is None:
        raise result.error
    return cast("outcome.Outcome[T]", outcome.Error(error))
