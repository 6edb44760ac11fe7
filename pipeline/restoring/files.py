"""The Parquet files of a table: their row groups by partition, from the footers, and the rows of a partition in order.

Row groups are read in order of their first offsets; only row groups with overlapping ranges are sorted together. The
files of `archive` are sorted, so hardly any overlap.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyarrow has no types

import heapq
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import numpy as np
import pyarrow.parquet

from odradek.pipeline.topic_partition import TopicPartition
from odradek.pipeline.writing.columns import Columns, Ints, joined, pa, pc

pq: Any = pyarrow.parquet

COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers")
PIECE_BYTES: Final = 8 * 1024 * 1024
"""The approximate size of one read, unless one row group is larger."""
OPEN_FILES: Final = 32
_PLACE: Final = ("topic", "partition", "offset")
_UNITS: Final = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}
"""The multiplier and divisor for converting timestamps of a unit to milliseconds."""
_ENDLESS: Final = 2**63 - 1
_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class Piece(NamedTuple):
    """Row groups of a file from `begin` up to, but excluding, `end`, for one partition. `size_bytes` is their
    uncompressed size. With `mixed` they also have rows of other partitions.
    """

    path: str
    begin: int
    end: int
    first: int
    last: int
    records: int
    size_bytes: int
    mixed: bool


Pieces = dict[TopicPartition, list[Piece]]


def names_of(path: str) -> list[str] | None:
    """Return the columns of a Parquet file; None for another file."""
    try:
        return pq.read_schema(path).names
    except (pa.ArrowInvalid, OSError):
        return None


def scan(paths: Iterable[str]) -> Pieces:
    """Return the pieces of each partition, in order of their first offsets. Raises OSError."""
    found: Pieces = {}
    for path in paths:
        for place, pieces in _scan_file(path).items():
            found.setdefault(place, []).extend(pieces)
    return {place: sorted(found[place], key=lambda piece: (piece.first, piece.last)) for place in sorted(found)}


def _scan_file(path: str) -> Pieces:
    found: Pieces = {}
    with pq.ParquetFile(path) as file:
        columns = _column_numbers(file.metadata)
        for number in range(file.metadata.num_row_groups):
            group = file.metadata.row_group(number)
            known = _by_statistics(path, number, group, columns)
            for place, piece in [known] if known else _by_rows(path, number, group.total_byte_size, file):
                _add(found.setdefault(place, []), piece)
    return found


def _column_numbers(metadata: Any) -> list[int]:  # noqa: ANN401 - pyarrow has no types
    numbers = {metadata.schema.column(number).path: number for number in range(metadata.num_columns)}
    return [numbers[name] for name in _PLACE]


def _by_statistics(
    path: str,
    number: int,
    group: Any,  # noqa: ANN401 - pyarrow has no types
    columns: Sequence[int],
) -> tuple[TopicPartition, Piece] | None:
    """Return the piece of a row group that, by its footer, has rows of one partition only."""
    bounds: list[tuple[Any, Any]] = []
    for column in columns:
        statistics = group.column(column).statistics
        if statistics is None or not statistics.has_min_max or statistics.null_count:
            return None
        bounds.append((statistics.min, statistics.max))
    (topic, last_topic), (partition, last_partition), (first, last) = bounds
    if topic != last_topic or partition != last_partition:
        return None
    return TopicPartition(topic, partition), Piece(
        path, number, number + 1, first, last, group.num_rows, group.total_byte_size, mixed=False
    )


def _by_rows(
    path: str,
    number: int,
    size_bytes: int,
    file: Any,  # noqa: ANN401 - pyarrow has no types
) -> Iterator[tuple[TopicPartition, Piece]]:
    """Return the pieces of any other row group, from its rows."""
    table = file.read_row_group(number, columns=list(_PLACE), use_threads=False)
    counted = table.group_by(["topic", "partition"]).aggregate([("offset", kind) for kind in ("min", "max", "count")])
    for row in counted.to_pylist():
        bounds = row["offset_min"], row["offset_max"], row["offset_count"]
        yield (
            TopicPartition(row["topic"], row["partition"]),
            Piece(path, number, number + 1, *bounds, size_bytes, mixed=True),
        )


def _add(pieces: list[Piece], piece: Piece) -> None:
    """Add a piece of the same file, merged with the last one if both can be read together."""
    if pieces:
        before = pieces[-1]
        follows = before.end == piece.begin and before.last < piece.first
        if follows and not (before.mixed or piece.mixed) and before.size_bytes + piece.size_bytes <= PIECE_BYTES:
            counts = before.records + piece.records, before.size_bytes + piece.size_bytes
            pieces[-1] = Piece(piece.path, before.begin, piece.end, before.first, piece.last, *counts, mixed=False)
            return
    pieces.append(piece)


def most_at_once(pieces: Iterable[Piece]) -> int:
    """Return the maximal size in bytes of pieces with overlapping offsets, which are in memory at the same time."""
    most = size = 0
    open_pieces: list[tuple[int, int]] = []
    for piece in pieces:
        while open_pieces and open_pieces[0][0] < piece.first:
            size -= heapq.heappop(open_pieces)[1]
        heapq.heappush(open_pieces, (piece.last, piece.size_bytes))
        size += piece.size_bytes
        most = max(most, size)
    return most


class Reader:
    """Reads pieces of one partition, in a `with` block; few files are open at once."""

    def __init__(self, place: TopicPartition) -> None:
        self._place = place
        self._open: OrderedDict[str, Any] = OrderedDict()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._open.values():
            file.close()

    def offsets(self, piece: Piece) -> Ints:
        """Return the offsets of a piece, sorted."""
        return np.sort(_numbers(self._table(piece, ["offset"]).column("offset")))

    def offsets_since(self, piece: Piece, time_ms: int) -> Ints:
        """Return the offsets of a piece's rows that are not older than a time."""
        table = self._table(piece, ["offset", "timestamp"])
        return _numbers(table.column("offset"))[_times_ms(table.column("timestamp")) >= time_ms]

    def columns(self, piece: Piece) -> list[Columns]:
        """Return the rows of a piece, in one part or several, in the order of the file."""
        table = self._table(piece, COLUMNS[2:])
        return [_columns_of(pa.table(batch)) for batch in table.to_batches() if batch.num_rows]

    def rows(self, pieces: Iterable[Piece], begin: int, end: int) -> Iterator[Columns]:
        """Yield all rows with offsets from `begin` up to, but excluding, `end`, in order, some megabytes at once.
        Raises ValueError for a duplicate offset.
        """
        wanted = [piece for piece in pieces if piece.last >= begin and piece.first < end]
        held: list[Columns] = []
        held_bytes, enough = 0, PIECE_BYTES
        for piece, following in zip_longest(wanted, wanted[1:]):
            held += self.columns(piece)
            held_bytes += piece.size_bytes
            if following is not None and held_bytes < enough:
                continue
            horizon = _ENDLESS if following is None else following.first
            rows = joined(held)
            yield from _in_parts(rows.between(begin, min(end, horizon)))
            rest = rows.between(horizon, _ENDLESS)
            held = [rest] if len(rest) else []
            held_bytes = rest.size_bytes if len(rest) else 0
            enough = max(PIECE_BYTES, 2 * held_bytes)  # many overlapping row groups are sorted once, not again for each

    def _table(self, piece: Piece, names: Sequence[str]) -> Any:  # noqa: ANN401 - pyarrow has no types
        groups = list(range(piece.begin, piece.end))
        if not piece.mixed:
            return self._file(piece.path).read_row_groups(groups, columns=list(names), use_threads=False)
        chosen = list(dict.fromkeys([*_PLACE, *names]))
        table = self._file(piece.path).read_row_groups(groups, columns=chosen, use_threads=False)
        topic, partition = self._place
        is_ours = pc.and_(pc.equal(table.column("topic"), topic), pc.equal(table.column("partition"), partition))
        return table.filter(is_ours).select(list(names))

    def _file(self, path: str) -> Any:  # noqa: ANN401 - pyarrow has no types
        file = self._open.pop(path, None)
        if file is None:
            file = pq.ParquetFile(Path(path), coerce_int96_timestamp_unit="us")
        self._open[path] = file
        if len(self._open) > OPEN_FILES:
            self._open.popitem(last=False)[1].close()
        return file


def _in_parts(rows: Columns) -> Iterator[Columns]:
    """Yield the rows, some megabytes at once."""
    if not len(rows):
        return
    count = -(-rows.size_bytes // (2 * PIECE_BYTES))
    step = -(-len(rows) // count)
    for begin in range(0, len(rows), step):
        yield rows.slice(begin, min(begin + step, len(rows)))


def _columns_of(table: Any) -> Columns:  # noqa: ANN401 - pyarrow has no types
    return Columns(
        _numbers(table.column("offset")),
        _times_ms(table.column("timestamp")),
        _numbers(table.column("timestampType")),
        _one(table.column("key").cast(pa.binary())),
        _one(table.column("value").cast(pa.binary())),
        _one(table.column("headers").cast(_HEADERS)),
    )


def _one(column: Any) -> Any:  # noqa: ANN401 - pyarrow has no types
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _numbers(column: Any) -> Ints:  # noqa: ANN401 - pyarrow has no types
    """Return a column without nulls as numbers."""
    if column.null_count:
        raise ValueError("the table has a row without offset, timestamp or timestampType")
    array = _one(column.cast(pa.int64()))
    return np.frombuffer(array.buffers()[1], np.int64, len(array), array.offset * 8)


def _times_ms(column: Any) -> Ints:  # noqa: ANN401 - pyarrow has no types
    factor, divisor = _UNITS[column.type.unit]
    return _numbers(column) * factor // divisor


def places_of(pieces: Mapping[TopicPartition, Sequence[Piece]]) -> dict[str, int]:
    """Return the number of partitions of each topic, as far as known from its rows."""
    found: dict[str, int] = {}
    for topic, partition in pieces:
        found[topic] = max(found.get(topic, 0), partition + 1)
    return found
