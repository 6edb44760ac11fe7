"""Conditions on topic, partition, offset and timestamp that the source applies itself, instead of Spark.

A condition compares one column with constants. It works on one value or on a NumPy array of values, since Python's
comparison operators do both.
"""

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

Values: TypeAlias = Any
"""One value, or a NumPy array of values; for results of comparisons a bool, or an array of bools."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_COLUMNS: Final = ("topic", "partition", "offset", "timestamp")
_INT64: Final = (-(2**63), 2**63 - 1)

_EQUAL, _UNEQUAL = operator.eq, operator.ne
_COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "EqualTo": _EQUAL,
    "EqualNullSafe": _EQUAL,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
}


@dataclass(frozen=True)
class Condition:
    """A condition on a column: with several `values`, for any of them (eq) or for all (ne). Times are in
    microseconds.
    """

    column: str
    compare: Callable[[Any, Any], Any]
    values: tuple[Any, ...]

    def holds(self, value: Values) -> Values:
        """Return whether it holds for a value, or for each of an array."""
        found: Values = self.compare(value, self.values[0])
        for each in self.values[1:]:
            other: Values = self.compare(value, each)
            found = found & other if self.compare is _UNEQUAL else found | other
        return found


def condition_of(found: object) -> Condition | None:
    """Translate a filter of `pyspark.sql.datasource`; None for one that Spark has to apply."""
    negated = type(found).__name__ == "Not"
    inner: Any = getattr(found, "child", None) if negated else found
    kind = type(inner).__name__
    attribute: tuple[str, ...] = getattr(inner, "attribute", ())
    if len(attribute) != 1 or attribute[0] not in _COLUMNS:
        return None
    column = attribute[0]
    if kind == "IsNotNull" and not negated:
        return Condition(column, _UNEQUAL, (None,))
    compare = _EQUAL if kind == "In" else _COMPARISONS.get(kind)
    if compare is None or (negated and compare is not _EQUAL):
        return None
    given: Iterable[Any] = inner.value if kind == "In" else (inner.value,)
    values = tuple(_comparable(column, value) for value in given)
    if not values or None in values:
        return None
    return Condition(column, _UNEQUAL if negated else compare, values)


def _comparable(column: str, value: object) -> Values | None:
    """Return the constant in the form for comparisons with the column, None if it has another type."""
    if column == "timestamp":
        return _microseconds(value) if isinstance(value, datetime) else None
    if column == "topic":
        return value if isinstance(value, str) else None
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if _INT64[0] <= value <= _INT64[1] else None


def _microseconds(value: datetime) -> int:
    return ((value if value.tzinfo else value.astimezone()) - _EPOCH) // _MICROSECOND


@dataclass(frozen=True)
class Conditions:
    """All conditions on a row."""

    all: tuple[Condition, ...] = ()

    def allow_partition(self, topic: str, partition: int) -> bool:
        """Whether rows of a partition can satisfy the filters."""
        known = {"topic": topic, "partition": partition}
        return all(each.holds(known[each.column]) for each in self.all if each.column in known)

    def offsets_within(self, start: int, end: int) -> tuple[int, int]:
        """Return the part of a range of offsets that may have matching rows; (start, start) if there is none."""
        low, high = self._bounds("offset", start, end - 1)
        return (max(start, low), min(end, high + 1)) if low <= high else (start, start)

    @property
    def since_ms(self) -> int | None:
        """The time in ms below which no row matches, None if there is none."""
        low, _ = self._bounds("timestamp", *_INT64)
        return None if low == _INT64[0] else low // 1000

    def _bounds(self, column: str, low: int, high: int) -> tuple[int, int]:
        for each in self.all:
            if each.column != column or None in each.values:
                continue
            least, most = min(each.values, default=0), max(each.values, default=0)
            name = each.compare.__name__
            low = max(low, least + (name == "gt")) if name in ("eq", "gt", "ge") else low
            high = min(high, most - (name == "lt")) if name in ("eq", "lt", "le") else high
        return low, high

    @property
    def of_rows(self) -> Sequence[Condition]:
        """The conditions on columns that differ from row to row."""
        return [each for each in self.all if each.column in ("offset", "timestamp") and each.values != (None,)]


NO_CONDITIONS: Final = Conditions()
