"""Reads a log's committed records: those of committed transactions, and those that belong to no transaction."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from odradek.partitions.model import AbortedTransaction, PartitionKey
from odradek.partitions.producers import ProducerEntry
from odradek.storage_backends.beside import LogBeside, LogsBeside, SegmentGoneError
from odradek.storage_backends.interface import StoreCorruptError
from odradek.wire.records.batch import BatchHeader, check_crc, iter_headers
from odradek.wire.records.errors import InvalidRecordBatch
from odradek.wire.records.reader import Record, read_records
from odradek.wire.values import immutable

LOOKS = 5
"""The number of attempts to read a file that another process may be replacing."""


class Aborted:
    """The aborted transactions of a log, by producer."""

    def __init__(self, transactions: Sequence[AbortedTransaction]) -> None:
        self._ranges: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for each in transactions:
            self._ranges[each.producer_id].append((each.first_offset, each.last_offset))

    def covers(self, header: BatchHeader) -> bool:
        """True if the batch belongs to an aborted transaction."""
        ranges = self._ranges.get(header.producer_id, ())
        return any(first <= header.base_offset <= last for first, last in ranges)


def last_stable_offset(view: LogBeside) -> int:
    """Return the last stable offset: all transactions below it are decided. Raises ProducerRowError.

    Stores do not have the high watermark, so the log end offset is the limit instead.
    """
    entries = (ProducerEntry.decode(state) for state in view.producers.values())
    begun = [entry.txn_first_offset for entry in entries if entry.txn_first_offset >= 0]
    return max(min([*begun, view.log_end_offset]), view.log_start_offset)


@immutable
class Wanted:
    """Which records to read: `start_offset` ≤ offset < `end_offset`, and `since_ms` ≤ timestamp ≤ `until_ms`."""

    start_offset: int = 0
    end_offset: int = 2**63 - 1
    since_ms: int = -(2**63)
    until_ms: int = 2**63 - 1

    def takes(self, record: Record) -> bool:
        """True if the record is within the range."""
        return (
            self.start_offset <= record.offset < self.end_offset
            and self.since_ms <= record.timestamp_ms <= self.until_ms
        )


def committed_records(logs: LogsBeside, key: PartitionKey, wanted: Wanted) -> Iterator[Record]:
    """Yield the records that a read_committed consumer would get now, in order, decoding one batch at a time.

    In a partition with several replicas these may include records at the log's end that are not replicated yet (see
    `last_stable_offset`). Records that retention deletes meanwhile are skipped; where compaction rewrites a segment
    meanwhile, the compacted one is read. Raises LogGoneError, StoreCorruptError, StoreError, and SegmentGoneError for a
    segment that is missing; ProducerRowError as `last_stable_offset` does.
    """
    position, end, missed = wanted.start_offset, None, 0
    while missed < LOOKS:
        with logs.look(key) as view:
            position = max(position, view.log_start_offset)
            end = min(wanted.end_offset, last_stable_offset(view)) if end is None else end
            aborted = Aborted(view.aborted)
            since_ms = None if wanted.since_ms < 0 else wanted.since_ms
            try:
                for last_offset, value in view.values(position, end, since_ms):
                    yield from _of_value(value, key, position, end, wanted, aborted)
                    position, missed = last_offset + 1, 0
            except SegmentGoneError:
                missed += 1
                if missed == LOOKS:
                    raise  # missing: no compacted segment has replaced it
            else:
                return


def _of_value(
    value: bytes, key: PartitionKey, start: int, end: int, wanted: Wanted, aborted: Aborted
) -> Iterator[Record]:
    try:
        for header in iter_headers(value):
            if _shows(header, start, end, wanted, aborted):
                check_crc(value, header)
                yield from [each for each in read_records(value, header) if start <= each.offset and wanted.takes(each)]
    except InvalidRecordBatch as error:
        raise StoreCorruptError(f"{key}: a batch from offset {start} on cannot be read: {error}") from error


def _shows(header: BatchHeader, start: int, end: int, wanted: Wanted, aborted: Aborted) -> bool:
    if header.last_offset < start or header.base_offset >= end or header.is_control or not header.record_count:
        return False
    if header.max_timestamp < wanted.since_ms:
        return False
    return not (header.is_transactional and aborted.covers(header))
