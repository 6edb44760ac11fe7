"""Validation of a batch from its bytes alone: Kafka's checks, in Kafka's order, with its error codes.

Batches are not decompressed, with two exceptions: on a compacted topic every record's key is checked, and if the header
violates the upper timestamp bound, or there is a lower bound, every record's timestamp is checked, in order to report
the bad records. `takes_long` is True if such a check may take long. Kafka also compares the header's max timestamp with
the records and corrects it; here the header is trusted.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from struct import Struct
from typing import Final

from odradek.partitions.config import NO_LIMIT, LogConfig, MessageTimestampType
from odradek.partitions.markers import read_end_txn_marker
from odradek.partitions.model import MAX_RECORDS_WITH_ROWS
from odradek.partitions.producers import EndTxnMarker
from odradek.partitions.results import Rejected
from odradek.wire.errors import ErrorCode
from odradek.wire.records.batch import (
    CODEC_MASK,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD_BYTES,
    MAGIC_V2,
    NO_TIMESTAMP,
    BatchHeader,
    Codec,
    check_crc,
    iter_headers,
    parse_header,
    peek_header,
)
from odradek.wire.records.errors import CrcMismatch, InvalidRecordBatch, RecordTooLarge
from odradek.wire.records.reader import RecordSummary, read_summaries

LATEST_PRODUCE_VERSION: Final = 13
_ZSTD_PRODUCE_VERSION: Final = 7
"""The first version of Produce that may carry zstd (KIP-110)."""

_LEAST_BATCH_LENGTH: Final = 14
"""The shortest message of any Kafka version (format v0): a batch length below it is damage."""
_UP_TO_MAGIC_BYTES: Final = 17
_BATCH_LENGTH: Final = Struct(">8xi")
_MAX_TIMESTAMP: Final = Struct(">35xq")
FEW_RECORDS: Final = 200
"""The number of uncompressed records that can be checked in about a millisecond."""
_SHORT_BYTES: Final = HEADER_BYTES + 7 * FEW_RECORDS
"""The smallest record has seven bytes."""
_ATTRIBUTES_LOW_AT: Final = 22
MAX_NAMED_FAULTS: Final = 1000
"""The maximum number of bad records reported for a batch, which may contain millions."""
# Enum members that are needed for each batch: a lookup costs as much as a call.
_ZSTD: Final = Codec.ZSTD
_LOG_APPEND_TIME: Final = MessageTimestampType.LOG_APPEND_TIME

_NO_BATCH: Final = "no_batch"
_DAMAGED: Final = "damaged"
_BATCH: Final = "batch"


def check_client_batch(
    records: memoryview, config: LogConfig, now_ms: int, api_version: int = LATEST_PRODUCE_VERSION
) -> BatchHeader | Rejected:
    """Validate one partition's records of a Produce request of `api_version`; returns the header if they are valid."""
    header = read_single_batch(records)
    if isinstance(header, Rejected):
        return header
    return (
        _check_envelope(records, header, config, api_version)
        or _check_header(header)
        or _check_rows(header, config)
        or _check_records(records, header, config, now_ms)
        or _check_fits_segment(header, config)
        or header
    )


def is_short(records: memoryview) -> bool:
    """True if a batch is uncompressed and too small for many records, so that `takes_long` is certainly False."""
    return HEADER_BYTES <= len(records) <= _SHORT_BYTES and not records[_ATTRIBUTES_LOW_AT] & CODEC_MASK


def takes_long(records: memoryview, config: LogConfig, now_ms: int) -> bool:
    """True if `check_client_batch` may have to check more than a few records, or to decompress them."""
    if not config.is_compacted and _in_time(_max_timestamp(records), config, now_ms):
        return False
    try:
        header = peek_header(records)
    except InvalidRecordBatch:
        return False  # refused before the records are read
    return header.codec != Codec.NONE or header.record_count > FEW_RECORDS


def check_trusted_batch(records: memoryview, config: LogConfig) -> BatchHeader | Rejected:
    """Validate a batch that the broker has built: it is well-formed, but may be too large (an offset commit)."""
    header = read_single_batch(records)
    if isinstance(header, Rejected):
        return header
    if header.is_control:
        return header  # a marker must always be written
    return _check_size(header, config) or _check_fits_segment(header, config) or header


def read_single_batch(records: memoryview) -> BatchHeader | Rejected:
    """Parse the single batch of `records`. As in Kafka, an incomplete batch at the end is ignored."""
    try:
        header = parse_header(records)
    except InvalidRecordBatch:
        return _refuse_unreadable(records)
    if header.end_position != len(records):
        return _check_rest(records, header.end_position) or header
    return header


def _refuse_unreadable(records: memoryview) -> Rejected:
    """Returns the error that Kafka's log input stream and Produce validation give."""
    kind = _probe(records, 0)
    if kind is _NO_BATCH:
        return Rejected(ErrorCode.INVALID_RECORD, "a produce request needs a whole record batch per partition")
    if kind is _BATCH and records[_UP_TO_MAGIC_BYTES - 1] != MAGIC_V2:
        return Rejected(ErrorCode.INVALID_RECORD, "a produce request may carry message format v2 only")
    return Rejected(ErrorCode.CORRUPT_MESSAGE, "the record batch has an impossible length or format")


def _check_rest(records: memoryview, position: int) -> Rejected | None:
    kind = _probe(records, position)
    if kind is _BATCH:
        return Rejected(ErrorCode.INVALID_RECORD, "a produce request may carry one record batch per partition only")
    if kind is _DAMAGED:
        return Rejected(ErrorCode.CORRUPT_MESSAGE, "bytes that are no record batch follow the record batch")
    return None


def _probe(records: memoryview, position: int) -> str:
    """Returns the kind of data at `position`: a batch of any format, no (whole) batch, or damage."""
    left = len(records) - position
    if left < LOG_OVERHEAD_BYTES:
        return _NO_BATCH
    (length,) = _BATCH_LENGTH.unpack_from(records, position)
    if length < _LEAST_BATCH_LENGTH:
        return _DAMAGED
    if left < _UP_TO_MAGIC_BYTES:
        return _NO_BATCH
    if records[position + _UP_TO_MAGIC_BYTES - 1] > MAGIC_V2:
        return _DAMAGED
    return _BATCH if left >= LOG_OVERHEAD_BYTES + length else _NO_BATCH


def _check_envelope(records: memoryview, header: BatchHeader, config: LogConfig, api_version: int) -> Rejected | None:
    """Check the codec for the version, then offset, size, checksum and codec."""
    codec = header.codec
    if codec == _ZSTD and api_version < _ZSTD_PRODUCE_VERSION:
        message = f"Produce version {api_version} may not carry zstd, {_ZSTD_PRODUCE_VERSION} is the first that may"
        return Rejected(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, message)
    if header.base_offset != 0:
        return Rejected(ErrorCode.INVALID_RECORD, f"the batch has base offset {header.base_offset}, clients send 0")
    if header.size_bytes > config.max_message_bytes:
        return _check_size(header, config)
    try:
        check_crc(records, header)
    except CrcMismatch as mismatch:
        return Rejected(ErrorCode.CORRUPT_MESSAGE, str(mismatch))
    if codec > _ZSTD:
        return Rejected(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"there is no compression codec {codec}")
    return None


def _check_size(header: BatchHeader, config: LogConfig) -> Rejected | None:
    if header.size_bytes <= config.max_message_bytes:
        return None
    message = f"the batch of {header.size_bytes} bytes exceeds max.message.bytes={config.max_message_bytes}"
    return Rejected(ErrorCode.MESSAGE_TOO_LARGE, message)


def _check_fits_segment(header: BatchHeader, config: LogConfig) -> Rejected | None:
    if header.size_bytes <= config.segment_bytes:
        return None
    message = f"the batch of {header.size_bytes} bytes exceeds segment.bytes={config.segment_bytes}"
    return Rejected(ErrorCode.RECORD_LIST_TOO_LARGE, message)


def _check_header(header: BatchHeader) -> Rejected | None:
    """Check counts, control bit and sequence."""
    count = header.record_count
    if count <= 0 or header.last_offset_delta + 1 != count:
        message = f"the batch declares {count} records, and {header.last_offset_delta} as its last offset delta"
        return Rejected(ErrorCode.INVALID_RECORD, message)
    if header.is_control:
        return Rejected(ErrorCode.INVALID_RECORD, "clients may not write control records")
    if header.producer_id >= 0 and header.base_sequence < 0:
        message = f"producer {header.producer_id} sent sequence {header.base_sequence}"
        return Rejected(ErrorCode.INVALID_RECORD, message)
    return None


def _check_rows(header: BatchHeader, config: LogConfig) -> Rejected | None:
    if not config.sql_columns or header.record_count <= MAX_RECORDS_WITH_ROWS:
        return None
    message = f"the batch of {header.record_count} records exceeds {MAX_RECORDS_WITH_ROWS} (odradek.sql.columns)"
    return Rejected(ErrorCode.MESSAGE_TOO_LARGE, message)


def _check_records(records: memoryview, header: BatchHeader, config: LogConfig, now_ms: int) -> Rejected | None:
    if header.attributes & LOG_APPEND_TIME_FLAG:
        # Kafka accepts this if the topic has CreateTime and the timestamps are in bounds, and clears the flag; no
        # client sends it.
        message = "producers may not set the timestamp type LogAppendTime"
        return Rejected(ErrorCode.INVALID_TIMESTAMP, message, ((0, message),))
    if config.is_compacted or not _in_time(header.max_timestamp, config, now_ms):
        return _check_each_record(records, header, config, now_ms)
    return None


def _max_timestamp(records: memoryview) -> int:
    """Returns the max timestamp in a batch's header without parsing the rest."""
    return _MAX_TIMESTAMP.unpack_from(records)[0] if len(records) >= _MAX_TIMESTAMP.size else NO_TIMESTAMP


def _in_time(newest: int, config: LogConfig, now_ms: int) -> bool:
    """Check the timestamps by the header's maximum; False when the records must be checked one by one."""
    if config.message_timestamp_type is _LOG_APPEND_TIME:
        return True
    if newest != NO_TIMESTAMP and newest - now_ms > config.message_timestamp_after_max_ms:
        return False
    return config.message_timestamp_before_max_ms == NO_LIMIT


def _check_each_record(records: memoryview, header: BatchHeader, config: LogConfig, now_ms: int) -> Rejected | None:
    batch = read_summaries(records, header, max_bytes=config.max_decompressed_bytes)
    try:
        faults = list(islice(_record_faults(batch, config, now_ms), MAX_NAMED_FAULTS))
        deque(batch, 0)  # the rest must be well-formed, too
    except RecordTooLarge as error:
        message = f"the batch cannot be looked into: {error} (odradek.inspect.max.decompressed.bytes)"
        return Rejected(ErrorCode.MESSAGE_TOO_LARGE, message)
    except InvalidRecordBatch as error:
        return Rejected(ErrorCode.INVALID_RECORD, str(error))
    if faults:
        return _refuse_for(faults)
    newest_ms = header.max_timestamp
    if newest_ms - now_ms > config.message_timestamp_after_max_ms and not _stamps_append_time(config):
        return Rejected(ErrorCode.INVALID_TIMESTAMP, f"the batch claims {newest_ms} as its largest timestamp")
    return None


def _record_faults(
    batch: Iterable[RecordSummary], config: LogConfig, now_ms: int
) -> Iterator[tuple[ErrorCode, int, str | None]]:
    """Yield (error, index in the batch, message) for each bad record."""
    keyed, stamped = config.is_compacted, _stamps_append_time(config)
    oldest, newest = now_ms - config.message_timestamp_before_max_ms, now_ms + config.message_timestamp_after_max_ms
    for index, record in enumerate(batch):
        timestamp = record.timestamp_ms
        if keyed and not record.has_key:
            yield ErrorCode.INVALID_RECORD, index, "a record of a compacted topic needs a key"
        elif not stamped and timestamp != NO_TIMESTAMP and not oldest <= timestamp <= newest:
            yield ErrorCode.INVALID_TIMESTAMP, index, f"timestamp {timestamp} is not within {oldest} to {newest}"


def _refuse_for(faults: list[tuple[ErrorCode, int, str | None]]) -> Rejected:
    by_time = any(error is ErrorCode.INVALID_TIMESTAMP for error, _, _ in faults)
    error = ErrorCode.INVALID_TIMESTAMP if by_time else ErrorCode.INVALID_RECORD
    cause = "by their timestamps" if by_time else "for want of a key"
    at_least = "at least " if len(faults) == MAX_NAMED_FAULTS else ""
    message = f"{at_least}{len(faults)} record(s) refused {cause}, the first at index {faults[0][1]}"
    return Rejected(error, message, tuple((index, text) for _, index, text in faults))


def _stamps_append_time(config: LogConfig) -> bool:
    return config.message_timestamp_type is _LOG_APPEND_TIME


def read_replicated_batches(
    records: memoryview, next_offset: int, leader_epoch: int
) -> list[tuple[BatchHeader, EndTxnMarker | None]] | Rejected:
    """Parse the batches that a leader sent, each with its transaction marker if it is one.

    An incomplete batch at the end is ignored, and so is everything from the first batch of an epoch above
    `leader_epoch` on (KAFKA-18723: a response that crossed an election). Checksums and the order of offsets are
    checked; errors are CORRUPT_MESSAGE and OFFSET_OUT_OF_RANGE.
    """
    batches: list[tuple[BatchHeader, EndTxnMarker | None]] = []
    try:
        for header in iter_headers(records, allow_partial_tail=True):
            if header.partition_leader_epoch > leader_epoch:
                break
            if header.base_offset < next_offset:
                message = f"the leader sent offset {header.base_offset} where {next_offset} is next"
                return Rejected(ErrorCode.OFFSET_OUT_OF_RANGE, message)
            check_crc(records, header)
            batches.append((header, read_end_txn_marker(records, header) if header.is_control else None))
            next_offset = header.next_offset
    except InvalidRecordBatch as error:
        return Rejected(ErrorCode.CORRUPT_MESSAGE, str(error))
    return batches
