"""Trio made deterministic: virtual time, and a scheduler whose every choice follows from a seed.

The flag and the random that Trio's scheduler uses are private to it; this module is the only one that touches them.
Four traps: a worker thread would let virtual time jump while it works (blocking calls go through
`Environment.run_blocking`); importing Hypothesis reseeds Trio's random (so the run has one of its own); a broker that
runs in another thread takes from the same random (so it has its own, too); iterating over a set of strings differs from
process to process (use dicts).
"""

import random
import threading
from collections.abc import Awaitable, Callable, Generator, MutableSequence
from contextlib import contextmanager
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
        """See `random.Random.shuffle`."""
        self._of_this_thread().shuffle(x)


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
    clock = trio.testing.MockClock(autojump_threshold=0)
    with deterministic_scheduling(seed):
        return trio.run(main, clock=clock)
