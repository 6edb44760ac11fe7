"""Encoding of a table's rows as record batches, with the rows' offsets.

aiokafka's compiled builder is four times as fast as ours. But it takes a timestamp of -1 for a missing one, and would
change records from before 1970, so our own builder makes batches with such records.
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
"""At most what a record without headers takes beside key and value, nearly always."""
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
    """What a batch says of its producer."""

    producer_id: int = -1
    epoch: int = -1
    sequence: int = -1
    transactional: bool = False


NO_PRODUCER: Final = Producer()


def in_batches(rows: Iterable[Row], limit_bytes: int, *, contiguous: bool = False) -> Iterator[list[Row]]:
    """Divide rows in the order of their offsets into those of one batch each.

    A batch is of `limit_bytes` before compression at most, unless one record is longer. Records whose timestamps were
    set at the append share a batch only when they share the time, which is the batch's. With `contiguous` a batch ends
    where an offset is missing. Raises ValueError where the offsets do not rise.
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
    """One batch of the rows; `dense` leaves out gaps and the timestamp type, which the broker sets with the offsets."""
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
    """aiokafka's builder of batches; None where its extension is not installed."""
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
    """The batch at its offset, compressed and of its timestamp type; what the checksum covers makes a new one."""
    if codec or append_time:
        (attributes,) = _ATTRIBUTES.unpack_from(batch, _ATTRIBUTES_AT)
        _ATTRIBUTES.pack_into(batch, _ATTRIBUTES_AT, attributes | codec | (LOG_APPEND_TIME_FLAG if append_time else 0))
        if codec:
            batch[HEADER_BYTES:] = compress(codec, memoryview(batch)[HEADER_BYTES:].tobytes())
            _BATCH_LENGTH.pack_into(batch, _LENGTH_AT, len(batch) - _LENGTH_FROM)
        _CRC.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[_ATTRIBUTES_AT:]))
    _BASE_OFFSET.pack_into(batch, 0, base_offset)
    return bytes(batch)
