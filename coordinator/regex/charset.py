"""Sets of characters, stored compactly as ranges."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from odradek.coordinator.regex.unicode_tables import NEXT_CASES

END: Final = 0x110000
"""One more than the last code point."""


@dataclass(frozen=True, slots=True)
class CharSet:
    """A set of Unicode characters.

    `bounds` is an ascending list of code points, at which membership alternates: the first character in the set, the
    next one that is not, the next one that is again, …
    """

    bounds: tuple[int, ...] = ()

    def __contains__(self, char: str) -> bool:
        return bisect_right(self.bounds, ord(char)) % 2 == 1

    def __invert__(self) -> "CharSet":
        bounds = self.bounds[1:] if self.bounds[:1] == (0,) else (0, *self.bounds)
        return CharSet(bounds[:-1] if bounds[-1:] == (END,) else (*bounds, END))

    def folded(self) -> "CharSet":
        """Returns the set with all case variants of its letters added."""
        codes, others = _cases()
        found: set[int] = set()
        for low, high in _ranges(self):
            found.update(*others[bisect_left(codes, low) : bisect_left(codes, high)])
        return _merged([*_ranges(self), *((code, code + 1) for code in found)]) if found else self


def char_range(first: int, last: int) -> CharSet:
    """Returns the set of code points from `first` to `last` inclusive."""
    return CharSet((first, last + 1))


def one_char(char: str) -> CharSet:
    """Returns the set of one character."""
    return char_range(ord(char), ord(char))


def union(sets: Iterable[CharSet]) -> CharSet:
    """Returns the union of the sets."""
    return _merged(pair for each in sets for pair in _ranges(each))


def _merged(ranges: Iterable[tuple[int, int]]) -> CharSet:
    bounds: list[int] = []
    for low, high in sorted(ranges):
        if bounds and low <= bounds[-1]:
            bounds[-1] = max(bounds[-1], high)
        else:
            bounds += (low, high)
    return CharSet(tuple(bounds))


def _ranges(chars: CharSet) -> Iterable[tuple[int, int]]:
    return zip(chars.bounds[::2], chars.bounds[1::2], strict=True)


@cache
def _cases() -> tuple[Sequence[int], Sequence[tuple[int, ...]]]:
    """Returns each letter that has case variants, in order, and the other variants of each."""
    following: dict[int, int] = {}
    for run in NEXT_CASES.split():
        first, count, step, distance = (int(number, 36) for number in run.split(","))
        following |= {code: code + distance for code in range(first, first + count * step, step)}
    codes = sorted(following)
    return codes, [_others(code, following) for code in codes]


def _others(code: int, following: Mapping[int, int]) -> tuple[int, ...]:
    found, at = list[int](), following[code]
    while at != code:
        found.append(at)
        at = following[at]
    return tuple(found)
