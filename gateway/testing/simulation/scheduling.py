"""Trio made deterministic: virtual time, and a scheduler whose every choice follows from a seed.

The flag, the random and the queue that Trio's scheduler uses are private to it, as is its heap of deadlines; this
module and `timers.py` are the only ones that touch them.
A process can be paused, as by SIGSTOP: its tasks are those whose context has its `Pause`, and while it is paused they
are kept out of the scheduler's queue.

Four traps: a worker thread would let virtual time jump while it works (blocking calls go through
`Environment.run_blocking`); importing Hypothesis reseeds Trio's random (so the run has one of its own); a broker that
runs in another thread takes from the same random (so it has its own, too); iterating over a set of strings differs from
process to process (use dicts).
"""

import math
import random
import threading
from collections.abc import Awaitable, Callable, Generator, MutableSequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any, Final, TypeVar

import trio
import trio.testing

T = TypeVar("T")

_FLAG: Final = "_ALLOW_DETERMINISTIC_SCHEDULING"
_RANDOM: Final = "_r"


class _Chance(random.Random):
    """Trio's random for all threads: the one that made it gets what `seed` says, any other what it had before."""

    def __init__(self, seed: int, before: random.Random) -> None:
        super().__init__(seed)
        self._thread = threading.get_ident()
        self._ours = random.Random(seed)  # noqa: S311 - chance is to be foretold here
        self._before = before

    def _of_this_thread(self) -> random.Random:
        return self._ours if threading.get_ident() == self._thread else self._before

    def random(self) -> float:
        """See `random.Random.random`."""
        return self._of_this_thread().random()

    def shuffle(self, x: MutableSequence[Any]) -> None:
        """See `random.Random.shuffle`, which draws nothing for one task; most turns of the loop have one."""
        if len(x) > 1:
            self._of_this_thread().shuffle(x)


class Pause:
    """Whether a process stands still. What wakes one of its tasks meanwhile has its effect when it goes on."""

    def __init__(self) -> None:
        self.is_paused = False
        self._held: list[trio.lowlevel.Task] = []

    def enter(self) -> None:
        """Make the current task, and all that it starts from now on, tasks of the process."""
        _PROCESS.set(self)

    @property
    def is_current(self) -> bool:
        """Whether the current task is one of the process."""
        return _PROCESS.get() is self

    def begin(self) -> None:
        """Stand still from now on; what is due in this very moment still happens."""
        self.is_paused = True

    def end(self) -> None:
        """Go on. Idempotent."""
        self.is_paused = False
        held, self._held = self._held, []
        for task in held:
            _runner_of(task).runq.append(task)

    def hold(self, task: trio.lowlevel.Task) -> None:
        """Keep a task that was just scheduled from running."""
        taken = _runner_of(task).runq.pop()
        assert taken is task, "this Trio schedules tasks in another way"
        self._held.append(task)


_PROCESS: Final[ContextVar[Pause | None]] = ContextVar("process", default=None)


def _runner_of(task: trio.lowlevel.Task) -> Any:  # noqa: ANN401 - it is Trio's own
    return getattr(task, "_runner")  # noqa: B009 - private


@contextmanager
def _pausable() -> Generator[None]:
    """Within the block the tasks of paused processes do not run."""
    runner: Any = getattr(import_module("trio._core._run"), "Runner")  # noqa: B009 - private
    reschedule: Any = runner.reschedule

    def holding_back(self: object, task: trio.lowlevel.Task, *next_send: object) -> None:
        reschedule(self, task, *next_send)
        process = task.context.get(_PROCESS)
        if process is not None and process.is_paused:
            process.hold(task)

    runner.reschedule = holding_back
    try:
        yield
    finally:
        runner.reschedule = reschedule


@contextmanager
def deterministic_scheduling(seed: int) -> Generator[None]:
    """Within the block `trio.run` schedules tasks as `seed` says. Raises AssertionError if Trio has changed inside."""
    module: Any = import_module("trio._core._run")
    assert isinstance(getattr(module, _FLAG, None), bool), f"this Trio has no {_FLAG}"
    chance = getattr(module, _RANDOM, None)
    assert isinstance(chance, random.Random), f"this Trio has no random named {_RANDOM}"
    flag = getattr(module, _FLAG)
    setattr(module, _FLAG, True)
    setattr(module, _RANDOM, _Chance(seed, chance))
    try:
        yield
    finally:
        setattr(module, _FLAG, flag)
        setattr(module, _RANDOM, chance)


def run_virtually(seed: int, main: Callable[[], Awaitable[T]]) -> T:
    """Run `main` to its end in virtual time: sleeping costs nothing, and one seed gives one course of events."""

    async def run() -> T:
        getattr(trio.lowlevel.current_task(), "_runner").instruments = {}  # noqa: B009 - asked five times in each turn
        return await main()

    with deterministic_scheduling(seed), _pausable():
        return trio.run(run, clock=_virtual_clock())


def _virtual_clock() -> trio.abc.Clock:
    """A clock that jumps to the next deadline when no task can run.

    Trio accepts none but its own `MockClock` here. That asks the real clock whenever it is asked, and Trio for all its
    statistics before it jumps; its methods are replaced by what they come to, which saves a tenth of a simulation.
    """
    clock: Any = trio.testing.MockClock(autojump_threshold=0)
    run: Any = getattr(import_module("trio._core._run"), "GLOBAL_RUN_CONTEXT")  # noqa: B009 - not exported
    now = clock.current_time()

    def current_time() -> float:
        return now

    def jump_to_next_deadline() -> None:
        nonlocal now
        jump = run.runner.deadlines.next_deadline() - now
        if 0 < jump < math.inf:
            now += jump

    def jump(seconds: float) -> None:
        nonlocal now
        assert seconds >= 0, "time does not go back"
        now += seconds

    clock.current_time, clock.jump, clock._autojump = current_time, jump, jump_to_next_deadline  # noqa: SLF001
    return clock
