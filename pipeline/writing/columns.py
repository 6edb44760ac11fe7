"""Encodes record batches from Arrow columns with NumPy: some steps of Python per batch, none per record.

The varints of all records are encoded column by column; Arrow's compiled `binary_join_element_wise` concatenates them
with keys, values and headers. Its result contains the records of all batches, of which each batch is a slice.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyarrow has no types

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, repeat
from struct import Struct
from typing import Any, Final, Self, TypeAlias

import numpy as np
import pyarrow
import pyarrow.compute

from odradek.pipeline.writing.encoding import LARGEST_DELTA, NO_PRODUCER, RECORD_OVERHEAD, Headers, Producer, Row
from odradek.wire.records.batch import (
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD_BYTES,
    MAGIC_V2,
    NO_LEADER_EPOCH,
    TRANSACTIONAL_FLAG,
    TimestampType,
)
from odradek.wire.records.compression import compress
from odradek.wire.records.crc import crc32c

pa: Any = pyarrow
pc: Any = pyarrow.compute

Ints: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Arrow: TypeAlias = Any
"""An Arrow array; pyarrow has no types."""

_BEFORE_CRC: Final = Struct(">qiib")
_CRC: Final = Struct(">I")
_AFTER_CRC: Final = Struct(">hiqqqhii")
_BITS: Final = 7
_MORE: Final = 0x80
_LONGEST_VARINT: Final = 10


@dataclass(frozen=True, slots=True)
class Columns:
    """Rows of one partition in order of their offsets. Keys and values are `binary`, headers a list of structs."""

    offsets: Ints
    times_ms: Ints
    types: Ints
    keys: Arrow
    values: Arrow
    headers: Arrow

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def first(self) -> int:
        """The first offset."""
        return int(self.offsets[0])

    @property
    def last(self) -> int:
        """The last offset."""
        return int(self.offsets[-1])

    @property
    def size_bytes(self) -> int:
        """The size of keys, values and headers."""
        return int(self.keys.nbytes + self.values.nbytes + self.headers.nbytes)

    def slice(self, begin: int, end: int) -> Self:
        """Return the rows with indexes from `begin` up to, but excluding, `end`, without copying."""
        numbers = (column[begin:end] for column in (self.offsets, self.times_ms, self.types))
        blobs = (column.slice(begin, end - begin) for column in (self.keys, self.values, self.headers))
        return type(self)(*numbers, *blobs)

    def taken(self, numbers: Ints) -> Self:
        """Return the rows with these indexes, copied."""
        chosen = pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])
        blobs = (column.take(chosen) for column in (self.keys, self.values, self.headers))
        return type(self)(self.offsets[numbers], self.times_ms[numbers], self.types[numbers], *blobs)

    def between(self, begin: int, end: int) -> Self:
        """Return the rows with offsets from `begin` up to, but excluding, `end`."""
        low, high = np.searchsorted(self.offsets, (begin, max(begin, end)))
        return self if (low, high) == (0, len(self)) else self.slice(int(low), int(high))

    def rows(self) -> Iterator[Row]:
        """Yield the rows one by one."""
        numbers = (column.tolist() for column in (self.offsets, self.times_ms, self.types))
        return map(Row._make, zip(*numbers, self.keys.to_pylist(), self.values.to_pylist(), self._lists(), strict=True))

    def _lists(self) -> "Iterator[Headers] | repeat[Headers]":
        if not _has_headers(self.headers):
            return repeat((), len(self))
        return ([(one["key"], one["value"]) for one in each or ()] for each in self.headers.to_pylist())


def joined(parts: Sequence[Columns]) -> Columns:
    """Return the rows of all parts in order of their offsets. Raises ValueError for a duplicate offset."""
    rows = parts[0]
    if len(parts) > 1:
        numbers = [
            np.concatenate(each) for each in zip(*[(p.offsets, p.times_ms, p.types) for p in parts], strict=True)
        ]
        blobs = [pa.concat_arrays(each) for each in zip(*[(p.keys, p.values, p.headers) for p in parts], strict=True)]
        rows = Columns(*numbers, *blobs)
    if not (np.diff(rows.offsets) > 0).all():
        rows = rows.taken(np.argsort(rows.offsets, kind="stable"))
        twice = np.flatnonzero(np.diff(rows.offsets) <= 0)
        if twice.size:
            offset = rows.offsets[twice[0]]
            raise ValueError(f"the table has offset {offset} after {offset}: a record twice, or out of order")
    return rows


def divided(rows: Columns, limit_bytes: int, *, contiguous: bool = False) -> list[int]:
    """Return the indexes of the first row of each batch, and the index after the last row.

    The rules are those of `encoding.in_batches`.
    """
    count, ends = len(rows), np.cumsum(_sizes(rows))
    breaks = np.flatnonzero(_breaks(rows, contiguous=contiguous)) + 1
    found, begin, done = [0], 0, 0
    while begin < count:
        end = max(begin + 1, int(np.searchsorted(ends, done + limit_bytes, "right")))
        at = int(np.searchsorted(breaks, begin, "right"))
        if at < len(breaks):
            end = min(end, int(breaks[at]))
        begin = min(end, int(np.searchsorted(rows.offsets, rows.offsets[begin] + LARGEST_DELTA, "right")))
        done = int(ends[begin - 1])
        found.append(begin)
    return found


def _breaks(rows: Columns, *, contiguous: bool) -> Any:  # noqa: ANN401 - an array of booleans
    """Return, for each row except the last, whether a batch has to end after it."""
    found = np.diff(rows.types) != 0
    if rows.types.any():
        found |= (rows.types[1:] != TimestampType.CREATE_TIME) & (np.diff(rows.times_ms) != 0)
    if contiguous:
        found |= np.diff(rows.offsets) != 1
    return found


def _sizes(rows: Columns) -> Ints:
    sizes = RECORD_OVERHEAD + np.maximum(_lengths(rows.keys), 0) + np.maximum(_lengths(rows.values), 0)
    return sizes + np.maximum(_lengths(_tails(rows.headers)), 0)


def encode_columns(
    rows: Columns, begins: Sequence[int], codec: int = 0, producer: Producer = NO_PRODUCER, *, dense: bool = False
) -> list[tuple[bytes, bytes | memoryview]]:
    """Return the header and the records of each batch; `begins` as from `divided`, `dense` as in `encoding.encode`."""
    firsts = np.array(begins[:-1])
    counts = np.diff(np.array(begins))
    base_times = rows.times_ms[firsts]
    deltas = rows.offsets - np.repeat(rows.offsets[firsts], counts)
    if dense:
        deltas = np.arange(len(rows)) - np.repeat(firsts, counts)
    edges, data = _records(rows, rows.times_ms - np.repeat(base_times, counts), deltas)
    newest = np.maximum.reduceat(rows.times_ms, firsts)
    transactional = TRANSACTIONAL_FLAG if producer.transactional else 0
    found: list[tuple[bytes, bytes | memoryview]] = []
    for number, (begin, end) in enumerate(pairwise(begins)):
        section: bytes | memoryview = data[edges[begin] : edges[end]]
        if codec:
            section = compress(codec, bytes(section))
        appended = not dense and rows.types[begin] == TimestampType.LOG_APPEND_TIME
        covered = _AFTER_CRC.pack(
            codec | transactional | (LOG_APPEND_TIME_FLAG if appended else 0),
            int(deltas[end - 1]),
            int(base_times[number]),
            int(newest[number]),
            producer.producer_id,
            producer.epoch,
            producer.sequence,
            end - begin,
        )
        length = HEADER_BYTES - LOG_OVERHEAD_BYTES + len(section)
        before = _BEFORE_CRC.pack(0 if dense else int(rows.offsets[begin]), length, NO_LEADER_EPOCH, MAGIC_V2)
        found.append((b"".join((before, _CRC.pack(crc32c(section, crc32c(covered))), covered)), section))
    return found


def _records(rows: Columns, time_deltas: Ints, offset_deltas: Ints) -> tuple[Ints, memoryview]:
    """Return all records concatenated: the begin of each, and the bytes."""
    key_lengths, value_lengths, tails = _lengths(rows.keys), _lengths(rows.values), _tails(rows.headers)
    fields = [_zigzag(column) for column in (time_deltas, offset_deltas, key_lengths)]
    value_field = _zigzag(value_lengths)
    body = 1 + sum(map(_widths, [*fields, value_field])) + np.maximum(key_lengths, 0) + np.maximum(value_lengths, 0)
    no_attributes = np.zeros(len(rows), np.uint64)
    prefixes = _varints([_zigzag(body + _lengths(tails)), no_attributes, *fields])
    everything = _join(prefixes, rows.keys, _varints([value_field]), rows.values, tails)
    return _edges(everything), memoryview(everything.buffers()[2])


def _tails(headers: Arrow) -> Arrow:
    """Return the bytes after each value: the number of headers, and the headers."""
    if not _has_headers(headers):
        count = len(headers)
        return _blobs(np.arange(count + 1, dtype=np.int32), np.zeros(count, np.uint8))
    edges = _edges(headers)
    entries = headers.values.slice(int(edges[0]), int(edges[-1] - edges[0]))
    names, contents = (entries.field(name).cast(pa.binary()) for name in ("key", "value"))
    if names.null_count:
        raise ValueError("the table has a header without a name")
    lengths = [_varints([_zigzag(_lengths(column))]) for column in (names, contents)]
    sections = _join(lengths[0], names, lengths[1], contents)
    of_each = _blobs(_edges(sections)[edges - edges[0]].astype(np.int32), sections.buffers()[2])
    return _join(_varints([_zigzag(np.diff(edges))]), of_each)


def _has_headers(headers: Arrow) -> bool:
    return bool(len(headers)) and headers.null_count < len(headers) and bool(np.diff(_edges(headers)).any())


def _join(*columns: Arrow) -> Arrow:
    """Concatenate the columns row by row; null is empty."""
    nothing = pa.scalar(b"", pa.binary())
    return pc.binary_join_element_wise(*columns, nothing, null_handling="replace", null_replacement=b"")


def _blobs(edges: Any, data: Any) -> Arrow:  # noqa: ANN401 - buffers
    return pa.Array.from_buffers(pa.binary(), len(edges) - 1, [None, pa.py_buffer(edges), pa.py_buffer(data)])


def _edges(column: Arrow) -> Ints:
    """Return the begin of each element of a binary or list array in its buffer, and the end of the last one."""
    numbers = np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, column.offset * 4)
    return numbers.astype(np.int64)


def _lengths(column: Arrow) -> Ints:
    """Return the length of each element of a binary array; -1 for null."""
    lengths = np.diff(_edges(column))
    if column.null_count:
        bits = np.unpackbits(np.frombuffer(column.buffers()[0], np.uint8), bitorder="little")
        lengths[bits[column.offset : column.offset + len(column)] == 0] = -1
    return lengths


def _zigzag(numbers: Ints) -> Any:  # noqa: ANN401 - unsigned
    return ((numbers << 1) ^ (numbers >> 63)).astype(np.int64).view(np.uint64)


def _widths(numbers: Any) -> Ints:  # noqa: ANN401 - unsigned
    """Return the size of each varint in bytes."""
    widths = np.ones(len(numbers), np.int64)
    for size in range(1, _LONGEST_VARINT):
        longer = numbers >= np.uint64(1 << (_BITS * size))
        if not longer.any():
            break
        widths += longer
    return widths


def _varints(columns: Sequence[Any]) -> Arrow:
    """Return a binary array with the concatenated varints of each row."""
    sizes = [_widths(column) for column in columns]
    edges = np.concatenate([[0], np.cumsum(sum(sizes))])
    out, position = np.empty(int(edges[-1]), np.uint8), edges[:-1]
    for column, size in zip(columns, sizes, strict=True):
        _write_varints(out, position, column, size)
        position = position + size
    return _blobs(edges.astype(np.int32), out)


def _write_varints(out: Any, position: Ints, numbers: Any, sizes: Ints) -> None:  # noqa: ANN401 - unsigned
    for number in range(int(sizes.max(initial=0))):
        more = sizes > number + 1
        out[position] = (numbers & np.uint64(_MORE - 1)).astype(np.uint8) | np.where(more, _MORE, 0).astype(np.uint8)
        if not more.any():
            return
        position, numbers, sizes = position[more] + 1, numbers[more] >> np.uint64(_BITS), sizes[more]
