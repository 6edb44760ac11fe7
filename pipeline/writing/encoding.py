"""Encoding of a table's rows as record batches, with the rows' offsets.

aiokafka's compiled builder is four times as fast as ours. But it interprets a timestamp of -1 as missing, and would
change records from before 1970, so batches with such records are made by our own builder.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from struct import Struct
from typing import Any, Final, NamedTuple

from odradek.wire.records.batch import HEADER_BYTES, LOG_APPEND_TIME_FLAG, Codec, TimestampType
from odradek.wire.records.builder import SimpleRecord, build_batch
from odradek.wire.records.compression import compress
from odradek.wire.records.crc import crc32c

CODECS: Final = {codec.name.lower(): int(codec) for codec in Codec}
LARGEST_DELTA: Final = 2**31 - 1
_CREATE_TIME: Final = int(TimestampType.CREATE_TIME)
RECORD_OVERHEAD: Final = 24
"""The size of a record without headers beyond its key and value, at most, in nearly all cases."""
_BASE_OFFSET: Final = Struct(">q")
_BATCH_LENGTH: Final = Struct(">i")
_CRC: Final = Struct(">I")
_ATTRIBUTES: Final = Struct(">h")
_PRODUCER: Final = Struct(">qhi")
_LENGTH_AT, _CRC_AT, _ATTRIBUTES_AT, _PRODUCER_AT = 8, 17, 21, 43
_LENGTH_FROM: Final = 12

Headers = Sequence[tuple[str, bytes | None]]


class Row(NamedTuple):
    """One record of a table."""

    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Producer(NamedTuple):
    """The producer's fields of a batch."""

    producer_id: int = -1
    epoch: int = -1
    sequence: int = -1
    transactional: bool = False


NO_PRODUCER: Final = Producer()


def in_batches(rows: Iterable[Row], limit_bytes: int, *, contiguous: bool = False) -> Iterator[list[Row]]:
    """Divide rows, in order of their offsets, into batches.

    A batch has at most `limit_bytes` before compression, unless one record is larger. Records with log append time are
    only in one batch if they have the same time, which is stored in the batch. With `contiguous` a batch ends before a
    missing offset. Raises ValueError if the offsets do not ascend.
    """
    pending: list[Row] = []
    size, last, base, kind, time_ms = 0, -1, 0, -1, 0
    for row in rows:
        offset, timestamp_ms, timestamp_type, key, value, headers = row
        if offset <= last:
            raise ValueError(f"the table has offset {offset} after {last}: a record twice, or out of order")
        follows = not contiguous or offset == last + 1
        last = offset
        added = RECORD_OVERHEAD + (len(key) if key else 0) + (len(value) if value else 0)
        if headers:
            added += sum(8 + 3 * len(name) + len(content or b"") for name, content in headers)
        fits = follows and size + added <= limit_bytes and timestamp_type == kind and offset - base <= LARGEST_DELTA
        if pending and not (fits and (kind == _CREATE_TIME or timestamp_ms == time_ms)):
            yield pending
            pending, size = [], 0
        if not pending:
            base, kind, time_ms = offset, timestamp_type, timestamp_ms
        pending.append(row)
        size += added
    if pending:
        yield pending


def encode(rows: Sequence[Row], codec: int = 0, producer: Producer = NO_PRODUCER, *, dense: bool = False) -> bytes:
    """Return one batch of the rows; `dense` omits gaps and the timestamp type, for batches whose offsets and type the
    broker sets.
    """
    base = 0 if dense else rows[0].offset
    deltas = range(len(rows)) if dense else [row[0] - base for row in rows]
    append_time = not dense and rows[0].timestamp_type == TimestampType.LOG_APPEND_TIME
    builder = compiled_builder()
    if builder is not None and min([row[1] for row in rows]) >= 0:
        return _finished(_build(builder, rows, deltas, producer), base, codec, append_time=append_time)
    return build_batch(
        [SimpleRecord(row.key, row.value, row.timestamp_ms, tuple(row.headers)) for row in rows],
        base_offset=base,
        codec=codec,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=producer.sequence,
        transactional=producer.transactional,
        log_append_time_ms=rows[0].timestamp_ms if append_time else None,
        offset_deltas=deltas,
    )


@cache
def compiled_builder() -> Callable[..., Any] | None:
    """Return aiokafka's batch builder; None if its extension is not installed."""
    try:
        from aiokafka.record._crecords import DefaultRecordBatchBuilder
    except ImportError:
        return None
    return DefaultRecordBatchBuilder


def _build(builder: Callable[..., Any], rows: Sequence[Row], deltas: Sequence[int], producer: Producer) -> bytearray:
    batch = builder(2, 0, producer.transactional, producer.producer_id, producer.epoch, producer.sequence, 2**31 - 1)
    append = batch.append
    for delta, (_, timestamp_ms, _, key, value, headers) in zip(deltas, rows, strict=True):
        append(delta, timestamp_ms, key, value, list(headers))
    return batch.build()


def _finished(batch: bytearray, base_offset: int, codec: int, *, append_time: bool) -> bytes:
    """Return the batch with its offset, compression and timestamp type, and a new checksum if necessary."""
    if codec or append_time:
        (attributes,) = _ATTRIBUTES.unpack_from(batch, _ATTRIBUTES_AT)
        _ATTRIBUTES.pack_into(batch, _ATTRIBUTES_AT, attributes | codec | (LOG_APPEND_TIME_FLAG if append_time else 0))
        if codec:
            batch[HEADER_BYTES:] = compress(codec, memoryview(batch)[HEADER_BYTES:].tobytes())
            _BATCH_LENGTH.pack_into(batch, _LENGTH_AT, len(batch) - _LENGTH_FROM)
        _CRC.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[_ATTRIBUTES_AT:]))
    _BASE_OFFSET.pack_into(batch, 0, base_offset)  # the checksum does not cover it
    return bytes(batch)
