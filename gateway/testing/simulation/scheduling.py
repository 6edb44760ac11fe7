"""Trio made deterministic: virtual time, and a scheduler whose every choice follows from a seed.

The flag and the random that Trio's scheduler uses are private to it; this module is the only one that touches them.
Three traps: a worker thread would let virtual time jump while it works (blocking calls go through
`Environment.run_blocking`); importing Hypothesis reseeds Trio's random (so it is seeded last, right before the run);
iterating over a set of strings differs from process to process (use dicts).
"""

import random
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final, TypeVar

import trio
import trio.testing

T = TypeVar("T")

_FLAG: Final = "_ALLOW_DETERMINISTIC_SCHEDULING"
_RANDOM: Final = "_r"


@contextmanager
def deterministic_scheduling(seed: int) -> Generator[None]:
    """Within the block `trio.run` schedules tasks as `seed` says. Raises AssertionError if Trio has changed inside."""
    module: Any = import_module("trio._core._run")
    assert isinstance(getattr(module, _FLAG, None), bool), f"this Trio has no {_FLAG}"
    chance = getattr(module, _RANDOM, None)
    assert isinstance(chance, random.Random), f"this Trio has no random named {_RANDOM}"
    flag, state = getattr(module, _FLAG), chance.getstate()
    setattr(module, _FLAG, True)
    chance.seed(seed)
    try:
        yield
    finally:
        setattr(module, _FLAG, flag)
        chance.setstate(state)


def run_virtually(seed: int, main: Callable[[], Awaitable[T]]) -> T:
    """Run `main` to its end in virtual time: sleeping costs nothing, and one seed gives one course of events."""
    clock = trio.testing.MockClock(autojump_threshold=0)
    with deterministic_scheduling(seed):
        return trio.run(main, clock=clock)
