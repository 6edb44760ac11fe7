"""Two sources, record by record."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from odradek.pipeline.auditing.records import COLUMNS, Source

KEPT_EXAMPLES: Final = 5
Row = dict[str, Any]


@dataclass(slots=True)
class Difference:
    """How one partition of `other` differs from the first source's, between offsets that both have.

    `missing` records are in the first source alone, `extra` in the other alone; `different` are in both and not the
    same. `only_first` and `only_other` are the ranges of offsets that the other or the first does not reach, `older`
    what the other still has from before the first one's log start: retention explains that.
    """

    partition: int
    start_offset: int
    end_offset: int
    same: int = 0
    missing: int = 0
    extra: int = 0
    different: int = 0
    examples: list[str] = field(default_factory=list[str])
    only_first: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    only_other: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    older: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    @property
    def is_identical(self) -> bool:
        """Whether both have the same records in the same order, and reach equally far."""
        return not (self.missing or self.extra or self.different or self.only_first or self.only_other)

    def note(self, text: str) -> None:
        """Keep an example."""
        if len(self.examples) < KEPT_EXAMPLES:
            self.examples.append(text)


def compare(first: Source, other: Source, partition: int) -> Difference:
    """Compare one partition over the offsets that both have."""
    mine, its = first.partitions().get(partition, (0, 0)), other.partitions().get(partition, (0, 0))
    start, end = max(mine[0], its[0]), min(mine[1], its[1])
    found = Difference(partition, start, max(start, end))
    found.only_first = _beyond(mine, its)
    found.older = _part(its[0], min(its[1], mine[0]))
    found.only_other = _part(max(its[0], mine[1]), its[1])
    if start < end:
        _compare(found, _Cursor(first.tables(partition, start, end)), _Cursor(other.tables(partition, start, end)))
    return found


def _beyond(mine: tuple[int, int], its: tuple[int, int]) -> list[tuple[int, int]]:
    """The parts of one range of offsets that lie outside of another."""
    if mine[0] >= mine[1]:
        return []
    if its[0] >= its[1]:
        return [mine]
    return _part(mine[0], min(mine[1], its[0])) + _part(max(mine[0], its[1]), mine[1])


def _part(start: int, end: int) -> list[tuple[int, int]]:
    """A range of offsets, unless it is empty."""
    return [(start, end)] if start < end else []


class _Cursor:
    """A place in a source's tables."""

    def __init__(self, tables: Iterator[Any]) -> None:
        self._tables = tables
        self.table: Any = None

    def fill(self) -> bool:
        """Have a table that is not used up; False at the end."""
        while self.table is None or not len(self.table):
            self.table = next(self._tables, None)
            if self.table is None:
                return False
        return True

    def skip(self, rows: int) -> None:
        """Go on behind so many rows."""
        self.table = self.table.slice(rows)

    def rows(self, last_offset: int) -> list[Row]:
        """The rows up to an offset, which are used up."""
        offsets = self.table.column("offset").to_pylist()
        count = sum(1 for offset in offsets if offset <= last_offset)
        rows: list[Row] = self.table.slice(0, count).to_pylist()
        self.skip(count)
        return rows

    @property
    def last_offset(self) -> int:
        """The last offset of the table."""
        return self.table.column("offset")[len(self.table) - 1].as_py()


def _compare(found: Difference, first: _Cursor, other: _Cursor) -> None:
    while True:
        has_first, has_other = first.fill(), other.fill()
        if has_first and has_other:
            _step(found, first, other)
        elif has_first:
            _merge(found, first.rows(first.last_offset), [])
        elif has_other:
            _merge(found, [], other.rows(other.last_offset))
        else:
            return


def _step(found: Difference, first: _Cursor, other: _Cursor) -> None:
    """Take as many rows as both have: at one look where they are equal, else row by row."""
    count = min(len(first.table), len(other.table))
    if first.table.slice(0, count).equals(other.table.slice(0, count)):
        found.same += count
        first.skip(count)
        other.skip(count)
        return
    last = min(first.last_offset, other.last_offset)
    _merge(found, first.rows(last), other.rows(last))


def _merge(found: Difference, first: list[Row], other: list[Row]) -> None:
    its = {row["offset"]: row for row in other}
    for row in first:
        offset = row["offset"]
        match = its.pop(offset, None)
        if match is None:
            found.missing += 1
            found.note(f"offset {offset} is missing")
        elif columns := [name for name in COLUMNS if row[name] != match[name]]:
            found.different += 1
            found.note(f"offset {offset} differs in {', '.join(columns)}")
        else:
            found.same += 1
    for offset in its:
        found.extra += 1
        found.note(f"offset {offset} is there in addition")
