"""Notices that a coroutine has to wait, at the moment when it first does."""

from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar

T = TypeVar("T")


@coroutine
def noticing_wait(awaited: Coroutine[Any, Any, T], on_wait: Callable[[], None]) -> Generator[Any, Any, T]:
    """Await `awaited`, and call `on_wait` once, just before it first waits; never when it runs through.

    It runs in the task that awaits this, as it would without. `on_wait` must not raise.
    """
    try:
        trap = awaited.send(None)
        on_wait()
        while True:
            trap = awaited.send((yield trap))  # Trio answers a trap with an outcome, and throws nothing in
    except StopIteration as done:
        return done.value
