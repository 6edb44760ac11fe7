"""Does the same for many things of a request at once, so that what they write shares commits."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Final, TypeVar

import trio

A = TypeVar("A")
R = TypeVar("R")

AT_ONCE: Final = 200


async def all_of(call: Callable[[A], Awaitable[R]], things: Sequence[A]) -> list[R]:
    """What `call` gives for each thing, in their order; `AT_ONCE` of them are under way at a time.

    A failure cancels the others and is raised in an exception group: what a client may send must not make `call` raise.
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
