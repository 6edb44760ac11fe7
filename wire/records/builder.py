"""Build record batches v2: for coordinators, tools and tests, and transaction markers."""

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final, NamedTuple

from odradek.wire.records.batch import (
    CONTROL_FLAG,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD_BYTES,
    MAGIC_V2,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
)
from odradek.wire.records.compression import compress
from odradek.wire.records.crc import crc32c
from odradek.wire.records.reader import ControlType, RecordHeaders
from odradek.wire.records.varint import varint, wrap_int64, write_unsigned

_BEFORE_CRC: Final = Struct(">qiib")
_CRC: Final = Struct(">I")
_AFTER_CRC: Final = Struct(">hiqqqhii")
_CONTROL_KEY: Final = Struct(">hh")
_END_TXN_VALUE: Final = Struct(">hi")
_LEADER_CHANGE_START: Final = Struct(">hi")
_NO_ATTRIBUTES: Final = b"\x00"
_NULL: Final = varint(-1)
"""The length of a key or value that is null."""


class SimpleRecord(NamedTuple):
    """A record that has no offset yet. Header keys are UTF-8 text, and may repeat."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int = NO_TIMESTAMP
    headers: RecordHeaders = ()


def build_batch(
    records: Iterable[SimpleRecord],
    *,
    base_offset: int = 0,
    codec: int = 0,
    compression_level: int | None = None,
    leader_epoch: int = NO_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    log_append_time_ms: int | None = None,
    offset_deltas: Sequence[int] | None = None,
) -> bytes:
    """Return one batch with the records at consecutive offsets, or at ascending `offset_deltas` from the base; with
    `log_append_time_ms` its timestamp type is LOG_APPEND_TIME.

    The base timestamp is the first record's, as in Kafka, so deltas may be negative. Raises ValueError if there are no
    records, UnsupportedCodec, and struct.error for a value too large for its field.
    """
    listed = list(records)
    if not listed:
        raise ValueError("a batch has at least one record")
    deltas = range(len(listed)) if offset_deltas is None else offset_deltas
    section = compress(codec, _encode_records(listed, deltas), compression_level)
    attributes = codec
    attributes |= TRANSACTIONAL_FLAG if transactional else 0
    attributes |= CONTROL_FLAG if control else 0
    max_timestamp = max(record.timestamp_ms for record in listed)
    if log_append_time_ms is not None:
        attributes |= LOG_APPEND_TIME_FLAG
        max_timestamp = log_append_time_ms
    base_timestamp = listed[0].timestamp_ms
    covered = _AFTER_CRC.pack(
        attributes,
        deltas[-1],
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(listed),
    )
    batch_length = HEADER_BYTES - LOG_OVERHEAD_BYTES + len(section)
    before = _BEFORE_CRC.pack(base_offset, batch_length, leader_epoch, MAGIC_V2)
    crc = _CRC.pack(crc32c(section, crc32c(covered)))
    return b"".join((before, crc, covered, section))


def end_transaction_marker(
    *,
    committed: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """Return the control batch that ends a transaction in one partition (KIP-98)."""
    kind = ControlType.COMMIT if committed else ControlType.ABORT
    value = _END_TXN_VALUE.pack(0, coordinator_epoch)
    return build_batch(
        [_control_record(kind, value, timestamp_ms)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def leader_change_marker(
    *,
    leader_id: int,
    voters: Sequence[int],
    granting_voters: Sequence[int],
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """Return the control batch with which a KRaft leader starts its epoch (KIP-595), LeaderChangeMessage
    version 0.
    """
    value = bytearray(_LEADER_CHANGE_START.pack(0, leader_id))
    for nodes in (voters, granting_voters):
        write_unsigned(value, len(nodes) + 1)
        for node in nodes:
            value += node.to_bytes(4, "big", signed=True) + b"\x00"
    value.append(0)
    return build_batch(
        [_control_record(ControlType.LEADER_CHANGE, bytes(value), timestamp_ms)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        control=True,
    )


def control_batch(
    records: Iterable[tuple[ControlType, bytes]], *, timestamp_ms: int, base_offset: int = 0, leader_epoch: int
) -> bytes:
    """Return a batch of control records of a Raft log or a snapshot (KIP-630, KIP-853)."""
    made = [_control_record(kind, value, timestamp_ms) for kind, value in records]
    return build_batch(made, base_offset=base_offset, leader_epoch=leader_epoch, control=True)


def _control_record(kind: ControlType, value: bytes, timestamp_ms: int) -> SimpleRecord:
    return SimpleRecord(_CONTROL_KEY.pack(0, kind), value, timestamp_ms)


def _encode_records(records: Sequence[SimpleRecord], offset_deltas: Sequence[int]) -> bytes:
    parts: list[bytes] = []
    base_timestamp = records[0].timestamp_ms
    for offset_delta, record in zip(offset_deltas, records, strict=True):
        body = _encode_body(record, offset_delta, wrap_int64(record.timestamp_ms - base_timestamp))
        parts += (varint(len(body)), body)
    return b"".join(parts)


def _encode_body(record: SimpleRecord, offset_delta: int, timestamp_delta: int) -> bytes:
    key, value, _, headers = record
    parts = [
        _NO_ATTRIBUTES,
        varint(timestamp_delta),
        varint(offset_delta),
        _NULL if key is None else varint(len(key)),
        key or b"",
        _NULL if value is None else varint(len(value)),
        value or b"",
        varint(len(headers)),
    ]
    for name, content in headers:
        text = name.encode()
        parts += (varint(len(text)), text, _NULL if content is None else varint(len(content)), content or b"")
    return b"".join(parts)
