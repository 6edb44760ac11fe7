"""Decode the records of a batch (KIP-82, KIP-98).

Not for the hot path: a broker stores and sends batches unparsed. Used by lookups by timestamp, coordinators that replay
their topics, tools and Spark. All functions except `records_section` copy what they return, so the buffer may be reused
once an iterator is exhausted. None checks the CRC: call `check_crc` first if the bytes are from a peer.

    length varint | attributes i8 | timestamp delta varlong | offset delta varint | key | value |
    header count varint | headers: key, value

A key or value is its length as a varint (-1: null), then its bytes.
"""

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from odradek.wire.records.batch import HEADER_BYTES, BatchHeader, TimestampType, batch_bytes, parse_header
from odradek.wire.records.compression import DEFAULT_MAX_RECORDS_BYTES, decompress
from odradek.wire.records.crc import BytesLike
from odradek.wire.records.errors import CorruptBatch
from odradek.wire.records.varint import read_varint, read_varlong, wrap_int64

RecordHeaders: TypeAlias = tuple[tuple[str, bytes | None], ...]

_Origin: TypeAlias = tuple[int, int, int, int | None]
"""A batch's base offset, last offset delta, base timestamp, log append time. A plain tuple for speed: it is unpacked
for every record.
"""

_SMALLEST_RECORD_BYTES: Final = 7
_INT64_MAX: Final = 2**63 - 1
_CONTROL_KEY: Final = Struct(">hh")
_END_TXN_VALUE: Final = Struct(">hi")


class Record(NamedTuple):
    """One record, as a consumer sees it."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: RecordHeaders = ()


class RecordPosition(NamedTuple):
    """A record's offset and timestamp."""

    offset: int
    timestamp_ms: int


class RecordSummary(NamedTuple):
    """A record's timestamp, and whether it has a key."""

    timestamp_ms: int
    has_key: bool


class ControlType(IntEnum):
    """The type of a control record; UNKNOWN for one that this version does not support."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class ControlMarker(NamedTuple):
    """A control record; `coordinator_epoch` is that of the transaction coordinator, for ABORT and COMMIT
    only.
    """

    offset: int
    timestamp_ms: int
    type: ControlType
    value: bytes | None
    coordinator_epoch: int | None


def read_records(
    buf: BytesLike, header: BatchHeader | None = None, *, max_bytes: int = DEFAULT_MAX_RECORDS_BYTES
) -> Iterator[Record]:
    """Decode one batch of the buffer (by default the first), record by record.

    Raises CorruptBatch, possibly after some records, UnsupportedCodec, or RecordTooLarge when the records
    decompress to more than `max_bytes`. Control batches are decoded like others: check `header.is_control`.
    """
    header = header or parse_header(buf)
    yield from read_section(bytes(records_section(buf, header, max_bytes=max_bytes)), header)


def read_section(data: bytes, header: BatchHeader) -> Iterator[Record]:
    """Decode the result of `records_section`, given as bytes. Raises CorruptBatch, possibly after some records."""
    origin = _origin(header)
    for start, end in _extents(data, header.record_count):
        yield _read_record(data, start, end, origin)


def read_positions(
    buf: BytesLike, header: BatchHeader | None = None, *, max_bytes: int = DEFAULT_MAX_RECORDS_BYTES
) -> Iterator[RecordPosition]:
    """Decode only offsets and timestamps, skipping keys, values and headers; raises as `read_records` does."""
    header = header or parse_header(buf)
    data = bytes(records_section(buf, header, max_bytes=max_bytes))
    origin = _origin(header)
    for start, _ in _extents(data, header.record_count):
        offset, timestamp_ms, _ = _read_position(data, start, origin)
        yield RecordPosition(offset, timestamp_ms)


def read_summaries(
    buf: BytesLike, header: BatchHeader | None = None, *, max_bytes: int = DEFAULT_MAX_RECORDS_BYTES
) -> Iterator[RecordSummary]:
    """Validate every record as `read_records` does, and raise as it does, without storing contents.

    A record may have millions of empty headers, which take 30 times their bytes as objects.
    """
    header = header or parse_header(buf)
    data = bytes(records_section(buf, header, max_bytes=max_bytes))
    origin = _origin(header)
    for start, end in _extents(data, header.record_count):
        yield _read_summary(data, start, end, origin)


def first_record_at_or_after(
    buf: BytesLike,
    timestamp_ms: int,
    header: BatchHeader | None = None,
    *,
    start_offset: int = 0,
    max_bytes: int = DEFAULT_MAX_RECORDS_BYTES,
) -> RecordPosition | None:
    """Return the first record of the batch, from `start_offset` on, that is not older than the timestamp."""
    for position in read_positions(buf, header, max_bytes=max_bytes):
        if position.timestamp_ms >= timestamp_ms and position.offset >= start_offset:
            return position
    return None


def max_timestamp_record(
    buf: BytesLike, header: BatchHeader | None = None, *, max_bytes: int = DEFAULT_MAX_RECORDS_BYTES
) -> RecordPosition | None:
    """Return the first record with the batch's max timestamp (KIP-734), None if the header's value is too high."""
    header = header or parse_header(buf)
    for position in read_positions(buf, header, max_bytes=max_bytes):
        if position.timestamp_ms == header.max_timestamp:
            return position
    return None


def read_control_marker(buf: BytesLike, header: BatchHeader | None = None) -> ControlMarker:
    """Decode the (first) marker of a control batch. Raises CorruptBatch, also when it is not a control batch."""
    header = header or parse_header(buf)
    if not header.is_control:
        raise CorruptBatch("not a control batch")
    for record in read_records(buf, header, max_bytes=DEFAULT_MAX_RECORDS_BYTES):
        return _control_marker(record)
    raise CorruptBatch("a control batch without a record")


def read_control_markers(buf: BytesLike, header: BatchHeader) -> Iterator[ControlMarker]:
    """Decode all markers of a control batch, as a Raft log and its snapshots have them. Raises CorruptBatch."""
    for record in read_records(buf, header, max_bytes=DEFAULT_MAX_RECORDS_BYTES):
        yield _control_marker(record)


def _control_marker(record: Record) -> ControlMarker:
    if record.key is None or len(record.key) < _CONTROL_KEY.size:
        raise CorruptBatch("the key of a control record has at least 4 bytes")
    version, number = _CONTROL_KEY.unpack_from(record.key)
    if version < 0:
        raise CorruptBatch(f"control record key of version {version}")
    known = number in ControlType.__members__.values()
    kind = ControlType(number) if known else ControlType.UNKNOWN
    epoch = _coordinator_epoch(record.value) if kind in (ControlType.ABORT, ControlType.COMMIT) else None
    return ControlMarker(record.offset, record.timestamp_ms, kind, record.value, epoch)


def _coordinator_epoch(value: bytes | None) -> int:
    if value is None or len(value) < _END_TXN_VALUE.size:
        raise CorruptBatch("the value of an end transaction marker has at least 6 bytes")
    version, epoch = _END_TXN_VALUE.unpack_from(value)
    if version < 0:
        raise CorruptBatch(f"end transaction marker of version {version}")
    return epoch


def records_section(buf: BytesLike, header: BatchHeader, *, max_bytes: int = DEFAULT_MAX_RECORDS_BYTES) -> memoryview:
    """Return the decompressed records, after checks of the header; without compression they are a view of `buf`.

    Raises CorruptBatch, UnsupportedCodec, RecordTooLarge.
    """
    count = header.record_count
    if count < 0 or header.last_offset_delta < 0 or count > header.last_offset_delta + 1:
        raise CorruptBatch(f"{count} records with a last offset delta of {header.last_offset_delta}")
    if header.last_offset > _INT64_MAX:
        raise CorruptBatch("offsets go beyond 64 bits")
    stored = batch_bytes(buf, header)[HEADER_BYTES:]
    data = decompress(header.codec, stored, max_bytes)
    if count * _SMALLEST_RECORD_BYTES > len(data):
        raise CorruptBatch(f"{count} records in {len(data)} bytes")
    return data


def _extents(data: bytes, record_count: int) -> Iterator[tuple[int, int]]:
    """Yield for each record the position of its attributes and the position after it, from the length prefixes."""
    position, limit = 0, len(data)
    for _ in range(record_count):
        try:
            length, position = read_varint(data, position)
        except IndexError as error:
            raise CorruptBatch("the batch ends before its last record") from error
        end = position + length
        if length < _SMALLEST_RECORD_BYTES - 1 or end > limit:
            raise CorruptBatch(f"record of {length} bytes with {limit - position} left")
        yield position, end
        position = end
    if position != limit:
        raise CorruptBatch(f"{limit - position} bytes after the last record")


def _origin(header: BatchHeader) -> _Origin:
    append_time = header.max_timestamp if header.timestamp_type is TimestampType.LOG_APPEND_TIME else None
    return header.base_offset, header.last_offset_delta, header.base_timestamp, append_time


def _read_position(data: bytes, start: int, origin: _Origin) -> tuple[int, int, int]:
    """Read the start of a record: (offset, timestamp, position of the key)."""
    base_offset, last_delta, base_timestamp, append_time = origin
    try:
        timestamp_delta, position = read_varlong(data, start + 1)
        offset_delta, position = read_varint(data, position)
    except IndexError as error:
        raise CorruptBatch("the batch ends inside a record") from error
    if not 0 <= offset_delta <= last_delta:
        raise CorruptBatch(f"offset delta {offset_delta} outside 0 to {last_delta}")
    timestamp_ms = wrap_int64(base_timestamp + timestamp_delta) if append_time is None else append_time
    return base_offset + offset_delta, timestamp_ms, position


def _read_record(data: bytes, start: int, end: int, origin: _Origin) -> Record:
    offset, timestamp_ms, position = _read_position(data, start, origin)
    try:
        key, position = _read_bytes(data, position, end)
        value, position = _read_bytes(data, position, end)
        headers, position = _read_headers(data, position, end)
    except IndexError as error:
        raise CorruptBatch("the batch ends inside a record") from error
    if position != end:
        raise _other_length(position, start, end)
    return Record(offset, timestamp_ms, key, value, headers)


def _read_summary(data: bytes, start: int, end: int, origin: _Origin) -> RecordSummary:
    _, timestamp_ms, position = _read_position(data, start, origin)
    try:
        key_length, position = _skip_bytes(data, position, end)
        _, position = _skip_bytes(data, position, end)
        position = _skip_headers(data, position, end)
    except IndexError as error:
        raise CorruptBatch("the batch ends inside a record") from error
    if position != end:
        raise _other_length(position, start, end)
    return RecordSummary(timestamp_ms, key_length >= 0)


def _other_length(position: int, start: int, end: int) -> CorruptBatch:
    return CorruptBatch(f"a record of {end - start} bytes has contents of {position - start}")


def _read_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = read_varint(data, position)
    stop = position + length
    if length < 0:
        if length != -1:
            raise CorruptBatch(f"key or value of {length} bytes")
        return None, position
    if stop > end:
        raise CorruptBatch(f"key or value of {length} bytes with {end - position} left")
    return data[position:stop], stop


def _skip_bytes(data: bytes, position: int, end: int) -> tuple[int, int]:
    """Check what `_read_bytes` checks, which copies: (the length, -1 for null; the position after the bytes)."""
    length, position = read_varint(data, position)
    if length < 0:
        if length != -1:
            raise CorruptBatch(f"key or value of {length} bytes")
        return length, position
    if position + length > end:
        raise CorruptBatch(f"key or value of {length} bytes with {end - position} left")
    return length, position + length


def _header_count(data: bytes, position: int, end: int) -> tuple[int, int]:
    count, position = read_varint(data, position)
    if count and not 0 < count <= (end - position) // 2:
        raise CorruptBatch(f"{count} record headers in {end - position} bytes")
    return count, position


def _skip_headers(data: bytes, position: int, end: int) -> int:
    count, position = _header_count(data, position, end)
    for _ in range(count):
        length, position = _skip_bytes(data, position, end)
        if length < 0:
            raise CorruptBatch("a record header without a key")
        _, position = _skip_bytes(data, position, end)
    return position


def _read_headers(data: bytes, position: int, end: int) -> tuple[RecordHeaders, int]:
    count, position = _header_count(data, position, end)
    if not count:
        return (), position
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        key, position = _read_bytes(data, position, end)
        if key is None:
            raise CorruptBatch("a record header without a key")
        value, position = _read_bytes(data, position, end)
        # Java's decoder replaces invalid UTF-8, and a broker must not refuse what every consumer can read.
        headers.append((key.decode("utf-8", "replace"), value))
    return tuple(headers), position


class RawRecord(NamedTuple):
    """A record for compaction: its key, whether it is a tombstone, and its bytes without the length prefix."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    is_tombstone: bool
    body: bytes


def read_raw_records(
    buf: BytesLike, header: BatchHeader, *, max_bytes: int = DEFAULT_MAX_RECORDS_BYTES
) -> Iterator[RawRecord]:
    """Decode offsets, timestamps and keys of one batch, without values and headers; raises as `read_records` does."""
    yield from read_raw_section(bytes(records_section(buf, header, max_bytes=max_bytes)), header)


def read_raw_section(data: bytes, header: BatchHeader) -> Iterator[RawRecord]:
    """Decode the result of `records_section`, given as bytes, as `read_raw_records` does."""
    origin = _origin(header)
    for start, end in _extents(data, header.record_count):
        offset, timestamp_ms, position = _read_position(data, start, origin)
        try:
            key, position = _read_bytes(data, position, end)
            value_length, _ = read_varint(data, position)
        except IndexError as error:
            raise CorruptBatch("the batch ends inside a record") from error
        yield RawRecord(offset, timestamp_ms, key, value_length < 0, data[start:end])
