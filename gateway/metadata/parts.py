"""Divides the entries of a request, so that other tasks run between the controller's decisions on its parts.

The shard decides on one operation without yielding: on a thousand topics that takes more than a tenth of a second. Each
part is committed before the next is decided.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

PART: Final = 200
"""The number of topics, resources or users that the shard decides on at once: twenty to thirty milliseconds."""
PART_PARTITIONS: Final = 2000
"""The number of partitions that it creates at once, unless one topic alone has more: ten to twenty milliseconds."""


def in_parts(
    listed: Sequence[T], names: Sequence[object], partitions: Callable[[T], int] = lambda _: 0
) -> Iterator[Sequence[T]]:
    """Divide `listed`, unless one of `names` occurs twice: duplicates are refused by examining all entries.

    `partitions` returns the number of partitions that an entry creates. An empty `listed` gives one empty part.
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
