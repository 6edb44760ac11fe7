"""Makes a call for many items of a request concurrently, so that their writes share commits."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Final, TypeVar

import trio

A = TypeVar("A")
R = TypeVar("R")

AT_ONCE: Final = 200


async def all_of(call: Callable[[A], Awaitable[R]], things: Sequence[A]) -> list[R]:
    """The results of `call` for each item, in their order; at most `AT_ONCE` calls run concurrently.

    A failure cancels the others and is raised in an exception group: `call` must not raise for a client's input.
    """
    if len(things) == 1:
        return [await call(things[0])]
    found: dict[int, R] = {}
    left = iter(range(len(things)))
    async with trio.open_nursery() as nursery:
        for _ in range(min(AT_ONCE, len(things))):
            nursery.start_soon(partial(_each, call, things, left, found))
    return [found[number] for number in range(len(things))]


async def _each(
    call: Callable[[A], Awaitable[R]], things: Sequence[A], left: Iterator[int], found: dict[int, R]
) -> None:
    for number in left:
        found[number] = await call(things[number])
