"""Deterministic Trio: virtual time, and a scheduler whose every choice is determined by a seed.

The flag, the random generator, the queue and the heap of deadlines of Trio's scheduler are private; only this module
and `timers.py` use them.
A process can be paused, as by SIGSTOP: its tasks are those whose context contains its `Pause`, and while it is paused
they are kept out of the scheduler's queue.

Four traps: virtual time would jump while a worker thread runs (so blocking calls go through
`Environment.run_blocking`); importing Hypothesis reseeds Trio's generator (so a run has its own); a broker in another
thread draws from the same generator (so each thread has its own); the order of a set of strings differs between
processes (so use dicts).
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
    """Trio's random generator: seeded for the thread that creates it, the previous one for all other threads."""

    def __init__(self, seed: int, before: random.Random) -> None:
        super().__init__(seed)
        self._thread = threading.get_ident()
        self._ours = random.Random(seed)  # noqa: S311 - it must be predictable
        self._before = before

    def _of_this_thread(self) -> random.Random:
        return self._ours if threading.get_ident() == self._thread else self._before

    def random(self) -> float:
        """See `random.Random.random`."""
        return self._of_this_thread().random()

    def shuffle(self, x: MutableSequence[Any]) -> None:
        """See `random.Random.shuffle`. One task, the usual case, needs no draw."""
        if len(x) > 1:
            self._of_this_thread().shuffle(x)


class Pause:
    """The pause of a process. A task of it that is woken during the pause runs when the pause ends."""

    def __init__(self) -> None:
        self.is_paused = False
        self._held: list[trio.lowlevel.Task] = []

    def enter(self) -> None:
        """Make the current task, and all tasks that it starts from now on, tasks of the process."""
        _PROCESS.set(self)

    @property
    def is_current(self) -> bool:
        """True if the current task belongs to the process."""
        return _PROCESS.get() is self

    def begin(self) -> None:
        """Pause from now on; tasks that are already scheduled still run."""
        self.is_paused = True

    def end(self) -> None:
        """Continue the process. Idempotent."""
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


def _runner_of(task: trio.lowlevel.Task) -> Any:  # noqa: ANN401 - a private type of Trio
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
    """Within the block, `seed` determines Trio's scheduling. Raises AssertionError if Trio's private names changed."""
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
    """Run `main` to its end in virtual time: sleeping takes no real time, and a seed determines all events."""

    async def run() -> T:
        getattr(trio.lowlevel.current_task(), "_runner").instruments = {}  # noqa: B009 - Trio reads it five times in each turn
        return await main()

    with deterministic_scheduling(seed), _pausable():
        return trio.run(run, clock=_virtual_clock())


def _virtual_clock() -> trio.abc.Clock:
    """A clock that jumps to the next deadline when no task can run.

    Trio accepts only its own `MockClock` here, which reads the real clock in each call, and all of Trio's statistics
    before it jumps. Replacing its methods by simpler equivalents saves a tenth of a simulation's time.
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
