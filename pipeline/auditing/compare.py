"""Compares two sources of a topic, record by record."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final

from odradek.pipeline.auditing.records import COLUMNS, Source
from odradek.pipeline.auditing.scan import Advance

KEPT_EXAMPLES: Final = 5
MOST_KEYS: Final = 200_000
Row = dict[str, Any]


@dataclass(slots=True)
class Difference:
    """How one partition of `other` differs from the first source's, between offsets that both have.

    `missing` records are only in the first source, `extra` only in the other; `different` are in both and not the same;
    `compacted` are only in one source, since in the other compaction removed them for a later record of their key.
    `only_first` and `only_other` are the ranges of offsets that the other or the first does not have, `older` the
    offsets of the other before the first one's log start, which retention explains.
    """

    partition: int
    start_offset: int
    end_offset: int
    same: int = 0
    missing: int = 0
    extra: int = 0
    different: int = 0
    compacted: int = 0
    examples: list[str] = field(default_factory=list[str])
    only_first: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    only_other: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    older: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    @property
    def is_identical(self) -> bool:
        """True if every difference is explained: by compaction, or by the first source's log start (`older`)."""
        return not (self.missing or self.extra or self.different or self.only_first or self.only_other)

    def note(self, text: str) -> None:
        """Add an example."""
        if len(self.examples) < KEPT_EXAMPLES:
            self.examples.append(text)


def compare(first: Source, other: Source, partition: int, advance: Advance) -> Difference:
    """Compare one partition over the offsets that both have; `advance` is called with the number of offsets
    processed.
    """
    mine, its = first.partitions().get(partition, (0, 0)), other.partitions().get(partition, (0, 0))
    start, end = max(mine[0], its[0]), min(mine[1], its[1])
    found = Difference(partition, start, max(start, end))
    found.only_first = _beyond(mine, its)
    found.older = _part(its[0], min(its[1], mine[0]))
    found.only_other = _part(max(its[0], mine[1]), its[1])
    if start < end:
        from_first, from_other = Successors(first.is_compacted), Successors(other.is_compacted)
        both = _Cursor(first.tables(partition, start, end)), _Cursor(other.tables(partition, start, end))
        _Comparison(found, *both, from_first, from_other, advance).run()
        from_first.search_later(first.tables(partition, end, mine[1]) if end < mine[1] else iter(()))
        from_other.search_later(other.tables(partition, end, its[1]) if end < its[1] else iter(()))
        _count(found, from_first, from_other)
    return found


def _count(found: Difference, from_first: "Successors", from_other: "Successors") -> None:
    """Count the records that are only in one source, separately those that compaction explains."""
    found.compacted += from_first.explained + from_other.explained
    found.missing += from_other.unexplained
    found.extra += from_first.unexplained
    for offset in from_other.examples():
        found.note(f"offset {offset} is missing")
    for offset in from_first.examples():
        found.note(f"offset {offset} is there in addition")


class Successors:
    """Records that one source lacks. If that source is compacted, a later record of the key explains it. A tombstone
    explains the records before it, and may itself have been removed. At most `most` keys are remembered until a later
    record is found; missing records of further keys count as explained.
    """

    def __init__(self, is_compacted: bool, most: int = MOST_KEYS) -> None:
        self._is_compacted, self._most = is_compacted, most
        self._waiting: dict[bytes, list[int]] = {}
        self._examples: list[int] = []
        self._unexplained = 0
        self.explained = 0

    def lacks(self, row: Row) -> None:
        """Add a missing record."""
        key = row["key"]
        if not self._is_compacted or key is None:
            self._unexplained += 1
            if len(self._examples) < KEPT_EXAMPLES:
                self._examples.append(row["offset"])
        elif row["value"] is None:
            self.has(key)
            self.explained += 1
        elif len(self._waiting) >= self._most and _hashed(key) not in self._waiting:
            self.explained += 1
        else:
            count, first = self._waiting.get(_hashed(key), [0, row["offset"]])
            self._waiting[_hashed(key)] = [count + 1, first]

    def has(self, key: bytes | None) -> None:
        """Process the key of an existing record, whose offset is higher than those of all records processed before."""
        if self._waiting and key is not None:
            self.explained += self._waiting.pop(_hashed(key), [0])[0]

    def search_later(self, tables: Iterator[Any]) -> None:
        """Search the records after the compared range for later records of the remembered keys."""
        while self._waiting and (table := next(tables, None)) is not None:
            for key in table.column("key").to_pylist():
                self.has(key)

    @property
    def is_waiting(self) -> bool:
        """True if any key is remembered."""
        return bool(self._waiting)

    @property
    def unexplained(self) -> int:
        """Return the number of unexplained records, at the end."""
        return self._unexplained + sum(count for count, _ in self._waiting.values())

    def examples(self) -> list[int]:
        """Return offsets of some of them."""
        return sorted([*self._examples, *(first for _, first in list(self._waiting.values())[:KEPT_EXAMPLES])])


def _hashed(key: bytes) -> bytes:
    return blake2b(key, digest_size=16).digest()


def _beyond(mine: tuple[int, int], its: tuple[int, int]) -> list[tuple[int, int]]:
    """Return the parts of one range of offsets that are outside another."""
    if mine[0] >= mine[1]:
        return []
    if its[0] >= its[1]:
        return [mine]
    return _part(mine[0], min(mine[1], its[0])) + _part(max(mine[0], its[1]), mine[1])


def _part(start: int, end: int) -> list[tuple[int, int]]:
    """Return a range of offsets as a list, empty if the range is."""
    return [(start, end)] if start < end else []


class _Cursor:
    """A position in a source's tables."""

    def __init__(self, tables: Iterator[Any]) -> None:
        self._tables = tables
        self.table: Any = None

    def fill(self) -> bool:
        """Read the next table if the current one has no rows left; return False at the end."""
        while self.table is None or not len(self.table):
            self.table = next(self._tables, None)
            if self.table is None:
                return False
        return True

    def skip(self, rows: int) -> None:
        """Skip the next `rows` rows of the table."""
        self.table = self.table.slice(rows)

    def rows(self, last_offset: int) -> list[Row]:
        """Return the rows up to and including an offset, and move past them."""
        offsets = self.table.column("offset").to_pylist()
        count = sum(1 for offset in offsets if offset <= last_offset)
        rows: list[Row] = self.table.slice(0, count).to_pylist()
        self.skip(count)
        return rows

    @property
    def last_offset(self) -> int:
        """The last offset of the table."""
        return self.table.column("offset")[len(self.table) - 1].as_py()


@dataclass(slots=True)
class _Comparison:
    found: Difference
    first: _Cursor
    other: _Cursor
    from_first: Successors
    from_other: Successors
    advance: Advance

    def run(self) -> None:
        """Compare all rows of both."""
        reached = self.found.start_offset
        while (last := self._step()) is not None:
            self.advance(last + 1 - reached, 0)
            reached = last + 1
        self.advance(self.found.end_offset - reached, 0)

    def _step(self) -> int | None:
        """Compare the rows that both current tables cover, at once if they are equal; return the offset reached, None
        at the end.
        """
        first, other = self.first, self.other
        has_first, has_other = first.fill(), other.fill()
        if has_first and has_other:
            count = min(len(first.table), len(other.table))
            if first.table.slice(0, count).equals(other.table.slice(0, count)):
                return self._take_equal(count)
            last = min(first.last_offset, other.last_offset)
            self._merge(first.rows(last), other.rows(last))
        elif has_first:
            last = first.last_offset
            self._merge(first.rows(last), [])
        elif has_other:
            last = other.last_offset
            self._merge([], other.rows(last))
        else:
            return None
        return last

    def _take_equal(self, count: int) -> int:
        self.found.same += count
        if self.from_first.is_waiting or self.from_other.is_waiting:
            for key in self.first.table.column("key").slice(0, count).to_pylist():
                self.from_first.has(key)
                self.from_other.has(key)
        last: int = self.first.table.column("offset")[count - 1].as_py()
        self.first.skip(count)
        self.other.skip(count)
        return last

    def _merge(self, first: list[Row], other: list[Row]) -> None:
        """Compare row by row, in order of offsets."""
        mine, its = {row["offset"]: row for row in first}, {row["offset"]: row for row in other}
        for offset in sorted(mine.keys() | its.keys()):
            row, match = mine.get(offset), its.get(offset)
            if row is not None:
                self.from_first.has(row["key"])
            if match is not None:
                self.from_other.has(match["key"])
            if row is None:
                self.from_first.lacks(its[offset])
            elif match is None:
                self.from_other.lacks(row)
            elif columns := [name for name in COLUMNS if row[name] != match[name]]:
                self.found.different += 1
                self.found.note(f"offset {offset} differs in {', '.join(columns)}")
            else:
                self.found.same += 1
