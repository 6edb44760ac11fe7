"""Record batch v2: its header as a value, and the operations on batches that do not decode their records.

Layout (Kafka's DefaultRecordBatch, KIP-98), big-endian:

    0 base offset i64 | 8 batch length i32 | 12 partition leader epoch i32 | 16 magic i8 | 17 crc u32 |
    21 attributes i16 | 23 last offset delta i32 | 27 base timestamp i64 | 35 max timestamp i64 |
    43 producer id i64 | 51 producer epoch i16 | 53 base sequence i32 | 57 record count i32 | 61 records

The batch length counts everything after itself. The CRC covers everything from `attributes` on, so base offset and
leader epoch can be patched without a new checksum, while log append time requires one.
"""

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from odradek.wire.records.crc import BytesLike, crc32c
from odradek.wire.records.errors import CorruptBatch, CrcMismatch, TruncatedBatch, UnsupportedMagic

MAGIC_V2: Final = 2
HEADER_BYTES: Final = 61
LOG_OVERHEAD_BYTES: Final = 12
"""The size of base offset and batch length, which the batch length does not count."""

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER_EPOCH: Final = -1

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
DELETE_HORIZON_FLAG: Final = 0x40

_MAX_SEQUENCE: Final = 2**31 - 1
_MAGIC_AT: Final = 16
_ATTRIBUTES_AT: Final = 21
_MAX_TIMESTAMP_AT: Final = 35

_HEADER: Final = Struct(">qiibIhiqqqhii")
_ASSIGNED: Final = Struct(">qii")
_LEADER_EPOCH: Final = Struct(">i")
_BASE_OFFSET: Final = Struct(">q")
_CRC: Final = Struct(">I")
_ATTRIBUTES: Final = Struct(">h")
_TIMESTAMP: Final = Struct(">q")
_EXTENT: Final = Struct(">qi11xi")

BatchParts: TypeAlias = tuple[BytesLike, ...]
"""A batch as consecutive buffers, for a vectored write or a join."""


class Codec(IntEnum):
    """Compression codecs, numbered as in the attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class TimestampType(IntEnum):
    """Whether the producer or, on append, the broker set the records' timestamps."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


def increment_sequence(sequence: int, by: int) -> int:
    """Return the sequence `by` records after `sequence`; sequences wrap from 2^31-1 to 0."""
    return (sequence + by) & _MAX_SEQUENCE


class BatchHeader(NamedTuple):
    """The header of one batch, as parsed.

    A named tuple, since one is made per batch on the hot path. `position` is where the batch starts in the
    buffer that was parsed: a property of that buffer, not of the batch, but part of equality.
    """

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    position: int

    @property
    def size_bytes(self) -> int:
        """The whole batch, header included."""
        return self.batch_length + LOG_OVERHEAD_BYTES

    @property
    def end_position(self) -> int:
        """The position after the batch in the buffer that was parsed."""
        return self.position + self.batch_length + LOG_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        """The offset of the batch's original last record, which compaction may have removed."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the last one."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """The number of the compression codec, 0 to 7; not all are members of `Codec`."""
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> TimestampType:
        """Whether the producer or the broker set the timestamps."""
        if self.attributes & LOG_APPEND_TIME_FLAG:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """True if the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        """True if the batch contains control records, such as a transaction marker, instead of a client's records."""
        return bool(self.attributes & CONTROL_FLAG)

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time from which compaction may remove tombstones and markers of the batch; None before the first
        compaction sets it.
        """
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None

    @property
    def has_producer_id(self) -> bool:
        """True if an idempotent or transactional producer (or a coordinator) wrote the batch."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, wrapped as Kafka does, or -1 when the batch has none."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)


def peek_header(buf: BytesLike, position: int = 0) -> BatchHeader:
    """Parse the header of a batch whose records need not be in the buffer.

    Raises UnsupportedMagic, TruncatedBatch (fewer bytes than a header) or CorruptBatch (an impossible
    length).
    """
    available = len(buf) - position
    if available < HEADER_BYTES:
        _reject_short(buf, position, available)
    header = BatchHeader._make((*_HEADER.unpack_from(buf, position), position))
    if header.magic != MAGIC_V2:
        raise UnsupportedMagic(header.magic)
    if header.batch_length < HEADER_BYTES - LOG_OVERHEAD_BYTES:
        raise CorruptBatch(f"batch length {header.batch_length} is less than a header")
    return header


def parse_header(buf: BytesLike, position: int = 0) -> BatchHeader:
    """Parse the header of a batch that is completely in the buffer; other batches may follow.

    Raises what `peek_header` raises, and TruncatedBatch when the batch extends past the end of the buffer.
    """
    header = peek_header(buf, position)
    if header.end_position > len(buf):
        raise TruncatedBatch(f"batch of {header.size_bytes} bytes, but only {len(buf) - position} are there")
    return header


def iter_headers(buf: BytesLike, *, allow_partial_tail: bool = False) -> Iterator[BatchHeader]:
    """Yield the headers of all batches of a buffer in order.

    Raises what `parse_header` raises, after the headers before the invalid batch were yielded. With
    `allow_partial_tail` an incomplete last batch, which fetch responses may have, is ignored instead.
    """
    position, end = 0, len(buf)
    while position < end:
        try:
            header = parse_header(buf, position)
        except TruncatedBatch:
            if allow_partial_tail:
                return
            raise
        yield header
        position = header.end_position


def check_crc(buf: BytesLike, header: BatchHeader) -> None:
    """Compare the header's checksum with the bytes of the batch it was parsed from; raises CrcMismatch."""
    covered = memoryview(buf)[header.position + _ATTRIBUTES_AT : header.end_position]
    actual = crc32c(covered)
    if actual != header.crc:
        raise CrcMismatch(expected=header.crc, actual=actual)


def batch_bytes(buf: BytesLike, header: BatchHeader) -> memoryview:
    """Return the bytes of one batch of the buffer, header included, without a copy."""
    return memoryview(buf)[header.position : header.end_position]


def assign_offsets(
    buf: BytesLike, base_offset: int, leader_epoch: int, header: BatchHeader | None = None
) -> BatchParts:
    """Set the batch's base offset and partition leader epoch; the checksum stays valid, since it covers neither.

    A writable buffer is patched in place and returned as one part. Of a read-only one only the first 16 bytes are
    copied: the result is (those bytes, the rest). `header` selects a batch of the buffer; by default the first.
    """
    header = header or parse_header(buf)
    batch = batch_bytes(buf, header)
    if batch.readonly:
        return _ASSIGNED.pack(base_offset, header.batch_length, leader_epoch), batch[_ASSIGNED.size :]
    _BASE_OFFSET.pack_into(batch, 0, base_offset)
    _LEADER_EPOCH.pack_into(batch, 12, leader_epoch)
    return (batch,)


def set_log_append_time(buf: BytesLike, header: BatchHeader, timestamp_ms: int) -> BatchParts:
    """Set the batch's timestamp type to log append time, its max timestamp to the given time, and a new checksum.

    The records are unchanged; readers use the max timestamp for all of them. A writable buffer is patched in place; for
    a read-only one the result is (a copy of the header, the rest).
    """
    batch = batch_bytes(buf, header)
    head = bytearray(batch[:HEADER_BYTES]) if batch.readonly else batch[:HEADER_BYTES]
    _ATTRIBUTES.pack_into(head, _ATTRIBUTES_AT, header.attributes | LOG_APPEND_TIME_FLAG)
    _TIMESTAMP.pack_into(head, _MAX_TIMESTAMP_AT, timestamp_ms)
    records = batch[HEADER_BYTES:]
    _CRC.pack_into(head, 17, crc32c(records, crc32c(head[_ATTRIBUTES_AT:])))
    return (head, records) if batch.readonly else (batch,)


def stamp_batch(
    buf: BytesLike,
    header: BatchHeader,
    *,
    base_offset: int,
    leader_epoch: int,
    log_append_time_ms: int | None = None,
) -> BatchParts:
    """Patch a batch for an append: `assign_offsets`, and `set_log_append_time` if a time is given."""
    if log_append_time_ms is None:
        return assign_offsets(buf, base_offset, leader_epoch, header)
    parts = set_log_append_time(buf, header, log_append_time_ms)
    _ASSIGNED.pack_into(_writable(parts[0]), 0, base_offset, header.batch_length, leader_epoch)
    return parts


def slice_from_offset(chunk: BytesLike, offset: int) -> memoryview:
    """Drop the batches that end before `offset`. The first remaining batch may start before it."""
    view = memoryview(chunk)
    position, end = 0, len(view)
    while position < end:
        last_offset, next_position = _extent(view, position)
        if last_offset >= offset:
            break
        position = next_position
    return view[position:]


def trim_before_offset(chunk: BytesLike, end_offset: int) -> memoryview:
    """Keep the leading batches that are completely below `end_offset` (a high watermark, an LSO, a log end offset)."""
    view = memoryview(chunk)
    position, end = 0, len(view)
    while position < end:
        last_offset, next_position = _extent(view, position)
        if last_offset >= end_offset:
            break
        position = next_position
    return view[:position]


def trim_to_bytes(chunk: BytesLike, max_bytes: int, *, keep_first: bool) -> memoryview:
    """Keep the leading batches that fit in `max_bytes` together; with `keep_first` the first one in any case."""
    view = memoryview(chunk)
    end = len(view)
    if end <= max_bytes:
        return view
    position = 0
    while position < end:
        _, next_position = _extent(view, position)
        if next_position > max_bytes and not (keep_first and position == 0):
            break
        position = next_position
    return view[:position]


def _extent(view: memoryview, position: int) -> tuple[int, int]:
    """Return the batch's last offset and the position after it; raises CorruptBatch if the batch is incomplete."""
    if len(view) - position < HEADER_BYTES:
        raise TruncatedBatch(f"{len(view) - position} bytes left, too few for a header")
    base_offset, batch_length, last_offset_delta = _EXTENT.unpack_from(view, position)
    next_position = position + LOG_OVERHEAD_BYTES + batch_length
    if batch_length < HEADER_BYTES - LOG_OVERHEAD_BYTES or next_position > len(view):
        raise CorruptBatch(f"batch length {batch_length} with {len(view) - position} bytes left")
    return base_offset + last_offset_delta, next_position


def _reject_short(buf: BytesLike, position: int, available: int) -> None:
    """Raise the error for fewer bytes than a header: a message of an older format may be shorter than a v2 header."""
    if position < 0 or available < 0:
        raise ValueError(f"position {position} lies outside a buffer of {len(buf)} bytes")
    if available > _MAGIC_AT:
        magic = int.from_bytes(buf[position + _MAGIC_AT : position + _MAGIC_AT + 1], "big", signed=True)
        if magic != MAGIC_V2:
            raise UnsupportedMagic(magic)
    raise TruncatedBatch(f"{available} bytes, too few for a record batch header of {HEADER_BYTES}")


def _writable(part: BytesLike) -> memoryview:
    view = memoryview(part)
    assert not view.readonly
    return view
