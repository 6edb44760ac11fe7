"""Removes records from batches, for compaction. Offsets, epochs and sequences stay."""

from collections.abc import Iterable
from struct import Struct
from typing import Final

from odradek.wire.records.batch import (
    CODEC_MASK,
    DELETE_HORIZON_FLAG,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    NO_TIMESTAMP,
    BatchHeader,
    TimestampType,
)
from odradek.wire.records.compression import compress
from odradek.wire.records.crc import crc32c
from odradek.wire.records.reader import RawRecord
from odradek.wire.records.varint import read_varlong, wrap_int64, write_varint

_INT64_MIN: Final = -(1 << 63)
_BEFORE_CRC: Final = Struct(">qiib")
_CRC: Final = Struct(">I")
_AFTER_CRC: Final = Struct(">hiqqqhii")


def retain_records(header: BatchHeader, records: Iterable[RawRecord], *, delete_horizon_ms: int | None = None) -> bytes:
    """Return the batch with only these of its records, at least one, and, if given, the `delete_horizon_ms`.

    The horizon is stored in the base timestamp, so the records' timestamp deltas are encoded again (KIP-534).
    """
    attributes, base_timestamp = header.attributes, header.base_timestamp
    if delete_horizon_ms is not None:
        attributes, base_timestamp = attributes | DELETE_HORIZON_FLAG, delete_horizon_ms
    section = bytearray()
    count, newest = 0, _INT64_MIN
    for record in records:
        body = record.body if delete_horizon_ms is None else _with_base(record, delete_horizon_ms)
        write_varint(section, len(body))
        section += body
        count, newest = count + 1, max(newest, record.timestamp_ms)
    max_timestamp = newest if header.timestamp_type is TimestampType.CREATE_TIME else header.max_timestamp
    return _assemble(header, attributes, (base_timestamp, max_timestamp), count, compress(header.codec, section))


def without_records(header: BatchHeader) -> bytes:
    """Return the batch without any record: it keeps the last sequence of its producer, and its last offset."""
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON_FLAG)
    return _assemble(header, attributes, (NO_TIMESTAMP, header.max_timestamp), 0, b"")


def _with_base(record: RawRecord, base_timestamp: int) -> bytes:
    _, position = read_varlong(record.body, 1)
    body = bytearray(record.body[:1])
    write_varint(body, wrap_int64(record.timestamp_ms - base_timestamp))
    return bytes(body + record.body[position:])


def _assemble(
    header: BatchHeader, attributes: int, timestamps: tuple[int, int], count: int, section: bytes | bytearray
) -> bytes:
    covered = _AFTER_CRC.pack(
        attributes,
        header.last_offset_delta,
        *timestamps,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        count,
    )
    length = HEADER_BYTES - LOG_OVERHEAD_BYTES + len(section)
    before = _BEFORE_CRC.pack(header.base_offset, length, header.partition_leader_epoch, header.magic)
    return b"".join((before, _CRC.pack(crc32c(section, crc32c(covered))), covered, section))
