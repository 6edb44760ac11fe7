"""Plans the rows to write, by partition, from the footers of the files and some columns of offsets."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from odradek.pipeline.restoring.bounds import Bound
from odradek.pipeline.restoring.files import Piece, Reader
from odradek.pipeline.topic_partition import TopicPartition
from odradek.pipeline.writing.columns import Columns, Ints
from odradek.pipeline.writing.encoding import Row

NO_BOUND: Final = Bound()


@dataclass(frozen=True, slots=True)
class Selected:
    """A partition's offsets to restore: from `begin` up to, but excluding, `end`."""

    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Share:
    """One partition's part of the plan, relative to the target's end. `count` rows are selected, from `first` to
    `last`. `remaining` of them are at the target's end or later, the first at `next`. `before` is the last offset of
    the whole table below the target's end. `left_out` counts rows between the target's end and the selection. Offsets
    are None if there is no such row.
    """

    selected: Selected
    count: int
    first: int | None
    last: int | None
    remaining: int
    next: int | None
    before: int | None
    left_out: int

    @property
    def missing(self) -> int:
        """The number of offsets without a row between the first and the last remaining row."""
        return 0 if self.next is None or self.last is None else self.last + 1 - self.next - self.remaining


@dataclass(frozen=True, slots=True)
class Rows:
    """A partition's rows in the table, at least one. Methods raise OSError if a file cannot be read. The offsets of a
    piece are only read if a method needs a part of it, and then cached.
    """

    place: TopicPartition
    pieces: Sequence[Piece]
    _read: dict[Piece, Ints] = field(default_factory=dict[Piece, "Ints"], compare=False)

    @property
    def first(self) -> int:
        """The first offset."""
        return self.pieces[0].first

    @property
    def end(self) -> int:
        """The offset after the last one."""
        return max(piece.last for piece in self.pieces) + 1

    def count(self, begin: int, end: int) -> int:
        """Return the number of rows from `begin` up to, but excluding, `end`."""
        return sum(
            piece.records if begin <= piece.first and piece.last < end else self._count_in(piece, begin, end)
            for piece in self._between(begin, end)
        )

    def at_or_after(self, begin: int, end: int) -> int | None:
        """Return the first offset from `begin` up to, but excluding, `end`."""
        found = (
            piece.first if piece.first >= begin else int(min(self._part(piece, begin, end), default=end))
            for piece in self._between(begin, end)
        )
        first = min(found, default=end)
        return first if first < end else None

    def before(self, end: int, begin: int = 0) -> int | None:
        """Return the last offset from `begin` up to, but excluding, `end`."""
        found = (
            piece.last if piece.last < end else int(max(self._part(piece, begin, end), default=-1))
            for piece in self._between(begin, end)
        )
        last = max(found, default=-1)
        return last if last >= begin else None

    def since(self, time_ms: int) -> int | None:
        """Return the first offset whose row is not older than a time."""
        best: int | None = None
        with Reader(self.place) as reader:
            for piece in self.pieces:
                if best is not None and piece.first > best:
                    break
                found = reader.offsets_since(piece, time_ms)
                if found.size:
                    best = int(found.min()) if best is None else min(best, int(found.min()))
        return best

    def read(self, begin: int, end: int) -> Iterator[Columns]:
        """Yield the rows in order. Raises ValueError for a duplicate offset."""
        with Reader(self.place) as reader:
            yield from reader.rows(self.pieces, begin, end)

    def row(self, offset: int) -> Row:
        """Return the row at an offset that has one."""
        return next(next(self.read(offset, offset + 1)).rows())

    def _between(self, begin: int, end: int) -> Iterator[Piece]:
        return (piece for piece in self.pieces if piece.last >= begin and piece.first < end)

    def _count_in(self, piece: Piece, begin: int, end: int) -> int:
        return len(self._part(piece, begin, end))

    def _part(self, piece: Piece, begin: int, end: int) -> Ints:
        """Return the offsets of a piece in a range."""
        if piece not in self._read:
            with Reader(self.place) as reader:
                self._read[piece] = reader.offsets(piece)
        offsets = self._read[piece]
        low, high = np.searchsorted(offsets, (begin, end))
        return offsets[low:high]


def select(rows: Mapping[int, Rows], start: Bound, until: Bound) -> dict[int, Selected]:
    """Return the offsets of each partition between the bounds; partitions without rows are omitted."""
    found: dict[int, Selected] = {}
    for partition, of_partition in rows.items():
        begin = _resolved(of_partition, start, of_partition.first)
        end = _resolved(of_partition, until, of_partition.end)
        found[partition] = Selected(begin, max(begin, end))
    return found


def _resolved(rows: Rows, bound: Bound, default: int) -> int:
    if bound.time_ms is not None:
        offset = rows.since(bound.time_ms)
        return rows.end if offset is None else offset
    offset = bound.of(rows.place.partition)
    return default if offset is None else offset


def shares(rows: Mapping[int, Rows], selected: Mapping[int, Selected], ends: Mapping[int, int]) -> dict[int, Share]:
    """Count each partition's rows relative to its selection and the target's end."""
    return {partition: _share(rows[partition], one, ends[partition]) for partition, one in selected.items()}


def _share(rows: Rows, selected: Selected, end: int) -> Share:
    begin = max(selected.begin, end)
    return Share(
        selected,
        count=rows.count(selected.begin, selected.end),
        first=rows.at_or_after(selected.begin, selected.end),
        last=rows.before(selected.end, selected.begin),
        remaining=rows.count(begin, selected.end),
        next=rows.at_or_after(begin, selected.end),
        before=rows.before(end),
        left_out=rows.count(end, selected.begin),
    )
