"""Divides what a request lists, so that others get turns while the metadata shard decides on each part.

The shard decides on one operation in one go: on a thousand topics that takes more than a tenth of a second. Each part
is on disk before the next is decided.
"""

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

PART: Final = 200
"""How many topics, resources or users the metadata shard decides on at once: twenty to thirty milliseconds."""


def in_parts(listed: Sequence[T], names: Sequence[object]) -> Iterator[Sequence[T]]:
    """Divide `listed`, unless one of `names` is there twice: what is to be said of that needs all of it together.

    Of nothing there is one part, without anything in it.
    """
    if len(listed) <= PART or len(set(names)) < len(names):
        yield listed
        return
    for at in range(0, len(listed), PART):
        yield listed[at : at + PART]
