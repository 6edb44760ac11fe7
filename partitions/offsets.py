"""ListOffsets: the special timestamps, and the search for the record in the batch that the store has found."""

from collections.abc import Iterable
from typing import Final

from odradek.partitions.results import NO_LEADER_EPOCH, NeedsScan, OffsetFound, Rejected
from odradek.wire.records.batch import BatchHeader, iter_headers
from odradek.wire.records.reader import RecordPosition, first_record_at_or_after, max_timestamp_record, read_positions

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
MAX_TIMESTAMP: Final = -3
"""The record with the largest timestamp (KIP-734)."""
EARLIEST_LOCAL_TIMESTAMP: Final = -4
"""Without tiered storage the same as the earliest (KIP-405)."""
LATEST_TIERED_TIMESTAMP: Final = -5
"""Without tiered storage there is none (KIP-1005)."""
EARLIEST_PENDING_UPLOAD_TIMESTAMP: Final = -6
"""Without tiered storage there is none (KIP-1023)."""


def offset_in_batches(chunks: Iterable[memoryview], scan: NeedsScan) -> OffsetFound | Rejected | None:
    """Find the record for `scan` in batches from the one that the store has found; None if it is not in these.

    By timestamp it is the first record, in offset order, that is not older. It may be in a later batch, because a
    batch's max timestamp may be larger than that of its records: read on after None, and return `scan.absent` at the
    log's end. For the max timestamp it is the first record with that timestamp in the first batch; if this batch begins
    below the log start, it is the newest of the records left in it, and if there are none, the next batch counts.
    Raises odradek.wire.records.errors.InvalidRecordBatch when the stored bytes are damaged.
    """
    for chunk in chunks:
        for header in iter_headers(chunk):
            if scan.of_max_timestamp and header.base_offset >= scan.start_offset:
                return _answer(max_timestamp_record(chunk, header), header, scan)
            record = _record_in(chunk, header, scan)
            if record is not None:
                return _answer(record, header, scan)
    return None


def _record_in(chunk: memoryview, header: BatchHeader, scan: NeedsScan) -> RecordPosition | None:
    if scan.of_max_timestamp:
        left = (each for each in read_positions(chunk, header) if each.offset >= scan.start_offset)
        return max(left, key=lambda each: each.timestamp_ms, default=None)
    if header.max_timestamp < scan.timestamp_ms:
        return None
    return first_record_at_or_after(chunk, scan.timestamp_ms, header, start_offset=scan.start_offset)


def _answer(record: RecordPosition | None, header: BatchHeader, scan: NeedsScan) -> OffsetFound | Rejected:
    if record is None or record.offset >= scan.limit_offset:
        return scan.absent
    return OffsetFound(record.offset, record.timestamp_ms, max(header.partition_leader_epoch, NO_LEADER_EPOCH))
