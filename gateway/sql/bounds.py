"""A statement's conditions on partition, offset and timestamp: from SQLite's form to bounds of what is read.

SQLite checks each row again, so a bound may admit too many rows, but never too few.
"""

import math
from collections.abc import Sequence
from typing import Final

import apsw

from odradek.gateway.beside.committed import Wanted
from odradek.wire.values import immutable

PARTITION, OFFSET, TIMESTAMP = range(3)

_EQ: Final = apsw.SQLITE_INDEX_CONSTRAINT_EQ
_GT: Final = apsw.SQLITE_INDEX_CONSTRAINT_GT
_LT: Final = apsw.SQLITE_INDEX_CONSTRAINT_LT
_LOWER: Final = {_EQ, _GT, apsw.SQLITE_INDEX_CONSTRAINT_GE}
_UPPER: Final = {_EQ, _LT, apsw.SQLITE_INDEX_CONSTRAINT_LE}
_MIN, _MAX = -(2**63), 2**63 - 1


@immutable
class Bounds:
    """Inclusive bounds of the three columns."""

    lower: tuple[int, int, int] = (_MIN, _MIN, _MIN)
    upper: tuple[int, int, int] = (_MAX, _MAX, _MAX)

    def has_partition(self, index: int) -> bool:
        """True if the partition may have rows."""
        return self.lower[PARTITION] <= index <= self.upper[PARTITION]

    @property
    def wanted(self) -> Wanted:
        """The range to read from each partition."""
        return Wanted(
            max(self.lower[OFFSET], 0),
            min(self.upper[OFFSET], _MAX - 1) + 1,
            self.lower[TIMESTAMP],
            self.upper[TIMESTAMP],
        )


def is_used(column: int, operator: int) -> bool:
    """True if a condition narrows the range to read."""
    return PARTITION <= column <= TIMESTAMP and operator in _LOWER | _UPPER


def encode(conditions: Sequence[tuple[int, int]]) -> str:
    """Columns and operators as text, which SQLite returns with the conditions' values."""
    return ",".join(f"{column}:{operator}" for column, operator in conditions)


def decode(conditions: str, values: Sequence[object]) -> Bounds | None:
    """The bounds from `conditions` and their values; None if no row can match.

    A value that is not a number is ignored.
    """
    lower, upper = list(Bounds().lower), list(Bounds().upper)
    for condition, value in zip(conditions.split(",") if conditions else (), values, strict=True):
        column, operator = map(int, condition.split(":"))
        if value is None:
            return None  # no comparison with NULL is true
        if not isinstance(value, int | float) or not math.isfinite(value):
            continue
        if operator in _LOWER:
            lower[column] = max(lower[column], math.floor(value) + 1 if operator == _GT else math.ceil(value))
        if operator in _UPPER:
            upper[column] = min(upper[column], math.ceil(value) - 1 if operator == _LT else math.floor(value))
    return Bounds(_within_64_bits(lower), _within_64_bits(upper))


def _within_64_bits(bounds: Sequence[int]) -> tuple[int, int, int]:
    first, second, third = [min(max(bound, _MIN), _MAX) for bound in bounds]
    return first, second, third
