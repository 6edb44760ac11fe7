"""Notices that a coroutine has to wait, at the moment when it first does."""

from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
A = TypeVarTuple("A")


@coroutine
def noticing_wait(
    awaited: Coroutine[Any, Any, T], on_wait: Callable[[Unpack[A]], None], *arguments: *A
) -> Generator[Any, Any, T]:
    """Await `awaited`, and call `on_wait(*arguments)` once, just before it first waits; never when it runs through.

    It runs in the task that awaits this, as it would without. `on_wait` must not raise.
    """
    try:
        trap = awaited.send(None)
        on_wait(*arguments)
        while True:
            trap = awaited.send((yield trap))  # Trio answers a trap with an outcome, and throws nothing in
    except StopIteration as done:
        return done.value
