"""Resumes a coroutine that its caller started with `send`, to find out whether it waits at all."""

from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar

T = TypeVar("T")


@coroutine
def resumed(begun: Coroutine[Any, Any, T], trap: Any) -> Generator[Any, Any, T]:  # noqa: ANN401
    """Await the rest of a coroutine whose `send(None)` returned `trap`, at its first wait.

    The part before ran in the task that called `send`. That task must not wait between the two calls.
    """
    try:
        while True:
            trap = begun.send((yield trap))  # Trio answers a trap with an outcome, and throws nothing in
    except StopIteration as done:
        return done.value
