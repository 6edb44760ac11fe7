"""Decodes records to Arrow columns with NumPy: at most one short step of Python per record, the rest on arrays.

A batch contains its number of records, and a record its length; so Python steps from record to record and stores each
end, or detects that many have the same length as the first. The following fields are varints at known positions, read
for all records at once. Keys and values are not sliced one by one: the whole buffer is wrapped as an Arrow array of
alternating slices, of which `take` copies the requested ones. Invalid records are left to `plain`, which raises the
exact error.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from odradek.pipeline.segments import plain
from odradek.pipeline.segments.rows import (
    HEADERS_TYPE,
    MAX_TIMESTAMP_MS,
    MICROSECONDS,
    TIMESTAMP_TYPE,
    Array,
    Columns,
    RowFilter,
    Section,
    pa,
)
from odradek.wire.records.batch import HEADER_BYTES, LOG_APPEND_TIME_FLAG

Ints: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

_RUN: Final = 16
"""The minimal number of records of the same length that are handled as a run."""
_VARINT_BYTES: Final = 5
_VARLONG_BYTES: Final = 10


class _NotVectorsError(Exception):
    """The records cannot be decoded as vectors; `decode` then decodes all its batches record by record."""


def decode(sections: Sequence[Section], keep: RowFilter, *, with_headers: bool) -> Columns:
    """Decode the records of batches that pass `keep`. Raises CorruptBatch."""
    try:
        return _decode(sections, keep, with_headers=with_headers)
    except (_NotVectorsError, IndexError, pa.ArrowInvalid):  # a length past the end, a header's name that is not UTF-8
        return plain.decode(sections, keep, with_headers=with_headers)


def _decode(sections: Sequence[Section], keep: RowFilter, *, with_headers: bool) -> Columns:
    data, begins = _in_one_buffer(sections)
    buffer: Any = np.frombuffer(data, np.uint8)
    records = _Records(buffer, *_bounds(data, buffer, begins, sections), sections)
    kept = records.kept(keep, sections)
    blob = pa.py_buffer(data)
    key, value = records.key, records.value
    micros = records.timestamp_ms[kept] * MICROSECONDS
    return Columns(
        _slices(blob, key, kept),
        _slices(blob, value, kept),
        _numbers(pa.int64(), records.offset[kept]),
        _numbers(TIMESTAMP_TYPE, micros),
        _numbers(pa.int32(), records.timestamp_type[kept]),
        records.headers(blob, kept) if with_headers else None,
    )


def _in_one_buffer(sections: Sequence[Section]) -> tuple[bytes, list[int]]:
    """Return a buffer with the records of all batches, and the position of each batch's records.

    If the buffer that was read has all of them, uncompressed, it is returned, and nothing is copied.
    """
    first = sections[0].data
    whole = first.obj if isinstance(first, memoryview) else None
    if isinstance(whole, bytes) and all(isinstance(data, memoryview) and data.obj is whole for _, data in sections):
        return whole, [header.position + HEADER_BYTES for header, _ in sections]
    begins = [0, *accumulate([len(data) for _, data in sections])]
    return b"".join([data for _, data in sections]), begins[:-1]


def _bounds(data: bytes, buffer: Array, begins: Sequence[int], sections: Sequence[Section]) -> tuple[Ints, Ints]:
    """Return the begin and end of each record."""
    starts: list[Ints] = []
    ends: list[Ints] = []
    for begin, (header, section) in zip(begins, sections, strict=True):
        found = _section_ends(data, buffer, begin, header.record_count)
        if not found.size or found[-1] != begin + len(section):
            raise _NotVectorsError
        starts += [np.array([begin]), found[:-1]]
        ends.append(found)
    return np.concatenate(starts), np.concatenate(ends)


def _section_ends(data: bytes, buffer: Array, position: int, count: int) -> Ints:
    """Return the end of each record of a batch: by runs of records of one length, and one by one between runs."""
    parts: list[Ints] = []
    stride = _RUN
    while count > 0:
        length, run = _run(data, buffer, position, count)
        if run >= _RUN:
            found = np.arange(1, run + 1) * length + position
            stride = _RUN
        else:
            ends: list[int] = []
            _walk(data, position, min(count, stride), ends)
            found = np.array(ends, np.int64)
            stride *= 2  # runs are not searched at every record if lengths differ
        parts.append(found)
        position = int(found[-1])
        count -= len(found)
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _run(data: bytes, buffer: Array, position: int, count: int) -> tuple[int, int]:
    """Return the length of the record at `position`, and how many consecutive records have it, at most `count`.

    The second number is only exact from `_RUN` on; a smaller one only means that there is no run.
    """
    length = _record_end(data, position) - position
    fitting = min(count, (len(data) - position) // length) if length > 0 else 0
    if fitting < _RUN:
        return length, fitting
    prefixes = buffer[position : position + fitting * length].reshape(fitting, length)[:, :_VARINT_BYTES]
    width = int((prefixes[0] < 0x80).argmax()) + 1
    other = (prefixes[:, :width] != prefixes[0, :width]).any(axis=1)
    return length, int(other.argmax()) if other.any() else fitting


def _walk(data: bytes, position: int, count: int, ends: list[int]) -> int:
    append = ends.append
    for _ in range(count):
        byte = data[position]
        if byte < 0x80:
            position += 1 + (byte >> 1)
        else:
            more = data[position + 1]
            if more < 0x80:
                position += 2 + ((byte & 0x7F | more << 7) >> 1)
            else:
                position = _record_end(data, position)
        append(position)
    return position


def _record_end(data: bytes, position: int) -> int:
    length = shift = 0
    for number in range(_VARINT_BYTES):
        byte = data[position + number]
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return position + number + 1 + (length >> 1)
    raise _NotVectorsError


class _Slices(NamedTuple):
    """Slices of the buffer: their begins and ends (ascending), and which are null."""

    starts: Ints
    ends: Ints
    nulls: Any


class _Records:
    """The fields of all records. Raises _NotVectorsError if the fields' lengths do not match the records'."""

    def __init__(self, buffer: Array, starts: Ints, ends: Ints, sections: Sequence[Section]) -> None:
        self._buffer = buffer
        self._ends = ends
        length, position = self._varint(starts)
        if not np.array_equal(position + length, self._ends):
            raise _NotVectorsError
        timestamp_delta, position = self._varint(position + 1, _VARLONG_BYTES)
        offset_delta, position = self._varint(position)
        self.key, position = self._bytes(position)
        self.value, position = self._bytes(position)
        counts = np.array([section.header.record_count for section in sections])
        self._take_offsets(offset_delta, sections, counts)
        self._take_timestamps(timestamp_delta, sections, counts)
        self._take_headers(*self._varint(position))

    def _varint(self, position: Ints, max_bytes: int = _VARINT_BYTES, ends: Ints | None = None) -> tuple[Ints, Ints]:
        """Read a zigzag varint of each record: (values, positions after them)."""
        buffer = self._buffer
        byte = buffer[position]
        value: Ints = (byte & 0x7F).astype(np.uint64)
        position = position + 1
        rest = np.flatnonzero(byte & 0x80)
        for number in range(1, max_bytes):
            if not rest.size:
                break
            byte = buffer[position[rest]]
            value[rest] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * number)
            position[rest] += 1
            rest = rest[byte >= 0x80]
        if rest.size or (position > (self._ends if ends is None else ends)).any():
            raise _NotVectorsError
        if max_bytes == _VARINT_BYTES and (value >> np.uint64(32)).any():
            raise _NotVectorsError
        return ((value >> np.uint64(1)) ^ (np.uint64(0) - (value & np.uint64(1)))).view(np.int64), position

    def _bytes(self, position: Ints, ends: Ints | None = None) -> tuple[_Slices, Ints]:
        """Read a length and the following bytes, for each record."""
        length, start = self._varint(position, ends=ends)
        nulls = length < 0
        end = start + np.where(nulls, 0, length)
        if (length < -1).any() or (end > (self._ends if ends is None else ends)).any():
            raise _NotVectorsError
        return _Slices(start, end, nulls), end

    def _take_offsets(self, delta: Ints, sections: Sequence[Section], counts: Array) -> None:
        last = np.repeat(np.array([header.last_offset_delta for header, _ in sections]), counts)
        if ((delta < 0) | (delta > last)).any():
            raise _NotVectorsError
        self.offset = np.repeat(np.array([header.base_offset for header, _ in sections]), counts) + delta

    def _take_timestamps(self, delta: Ints, sections: Sequence[Section], counts: Array) -> None:
        is_append = np.array([header.attributes & LOG_APPEND_TIME_FLAG != 0 for header, _ in sections])
        base = np.array([header.base_timestamp for header, _ in sections])
        newest = np.array([header.max_timestamp for header, _ in sections])
        appended = np.repeat(is_append, counts)
        self.timestamp_ms = np.where(appended, np.repeat(newest, counts), np.repeat(base, counts) + delta)
        self.timestamp_type = appended.astype(np.int32)
        if ((self.timestamp_ms > MAX_TIMESTAMP_MS) | (self.timestamp_ms < -MAX_TIMESTAMP_MS)).any():
            raise _NotVectorsError

    def _take_headers(self, count: Ints, position: Ints) -> None:
        if (count < 0).any():
            raise _NotVectorsError
        self._header_counts = count
        self._headers: list[tuple[Ints, _Slices, _Slices]] = []
        records = np.flatnonzero(count)
        number = 0
        while records.size:
            ends = self._ends[records]
            key, after = self._bytes(position[records], ends)
            value, after = self._bytes(after, ends)
            if key.nulls.any():
                raise _NotVectorsError
            self._headers.append((records, key, value))
            position[records] = after
            number += 1
            records = records[count[records] > number]
        if not np.array_equal(position, self._ends):
            raise _NotVectorsError

    def kept(self, keep: RowFilter, sections: Sequence[Section]) -> Ints:
        """Return the numbers of the records to keep."""
        if keep.takes_all(sections):
            return np.arange(len(self.offset))
        return np.flatnonzero(keep.passes(self.offset, self.timestamp_ms * MICROSECONDS))

    def headers(self, blob: Array, kept: Ints) -> Array:
        """Return the column of record headers: null for a record without headers."""
        counts = self._header_counts[kept]
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        keys, values = self._all_headers(blob, kept)
        entries = pa.StructArray.from_arrays([keys.cast(pa.string()), values], fields=list(HEADERS_TYPE.value_type))
        present = _bitmap(counts > 0)
        return pa.Array.from_buffers(HEADERS_TYPE, len(kept), [present, pa.py_buffer(offsets)], children=[entries])

    def _all_headers(self, blob: Array, kept: Ints) -> tuple[Array, Array]:
        if not self._headers:
            return pa.array([], pa.binary()), pa.array([], pa.binary())
        of = np.concatenate([records for records, _, _ in self._headers])
        order = np.argsort(of, kind="stable")
        order = order[np.isin(of[order], kept)]
        return _ordered(blob, [key for _, key, _ in self._headers], order), _ordered(
            blob, [value for _, _, value in self._headers], order
        )


def _ordered(blob: Array, parts: Sequence[_Slices], order: Ints) -> Array:
    """Return slices in the order of their records."""
    joined = _Slices(*[np.concatenate(fields)[order] for fields in zip(*parts, strict=True)])
    return _slices(blob, joined, np.arange(len(order)))


def _slices(blob: Array, parts: _Slices, kept: Ints) -> Array:
    """Copy parts of the buffer into a binary array."""
    count = len(parts.starts)
    edges = np.empty(2 * count + 1, np.int32)
    edges[0:-1:2] = parts.starts
    edges[1::2] = parts.ends
    edges[-1] = parts.ends[-1] if count else 0
    every = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(edges), blob])
    nulls = parts.nulls[kept]
    return every.take(_numbers(pa.int64(), kept * 2, _bitmap(~nulls) if nulls.any() else None))


def _numbers(kind: Array, values: Array, present: Array | None = None) -> Array:
    """Return an Arrow array over NumPy's memory, without `pyarrow.array`, which imports pandas."""
    return pa.Array.from_buffers(kind, len(values), [present, pa.py_buffer(values)])


def _bitmap(present: Array) -> Array:
    """Return Arrow's validity bitmap."""
    return pa.py_buffer(np.packbits(present, bitorder="little"))
