"""Divides the entries of a request, so that other tasks run between the controller's decisions on its parts.

The shard decides on one operation in one go: on a thousand topics that takes more than a tenth of a second. Each part
is on disk before the next is decided.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

PART: Final = 200
"""How many topics, resources or users the metadata shard decides on at once: twenty to thirty milliseconds."""
PART_PARTITIONS: Final = 2000
"""How many partitions it creates at once, unless one topic alone has more: ten to twenty milliseconds."""


def in_parts(
    listed: Sequence[T], names: Sequence[object], partitions: Callable[[T], int] = lambda _: 0
) -> Iterator[Sequence[T]]:
    """Divide `listed`, unless one of `names` is there twice: duplicates are refused by looking at all entries.

    `partitions` says how many each creates. Of nothing there is one part, without anything in it.
    """
    if len(set(names)) < len(names):
        yield listed
        return
    start = count = 0
    for at, each in enumerate(listed):
        count += partitions(each)
        if at > start and (at - start >= PART or count > PART_PARTITIONS):
            yield listed[start:at]
            start, count = at, partitions(each)
    yield listed[start:]
