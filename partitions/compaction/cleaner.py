"""The two passes over a log's batches: `KeyIndex` collects the keys, `BatchFilter` selects the records to keep."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from typing import NamedTuple

from odradek.partitions.compaction.offset_map import OffsetMap
from odradek.partitions.compaction.transactions import CleanedTransactions
from odradek.partitions.model import AbortedTransaction, StoredBatch
from odradek.wire.records.batch import BatchHeader, batch_bytes, iter_headers, parse_header
from odradek.wire.records.reader import RawRecord, read_raw_records, read_raw_section, records_section
from odradek.wire.records.rebuild import retain_records, without_records


class LastEntry(NamedTuple):
    """The last write of an active producer: the offset of its last record (-1: none in its epoch), and its epoch."""

    last_offset: int
    producer_epoch: int


class KeyIndex:
    """The first pass: collects the newest offset of each key in the dirty part, from `start_offset` on."""

    def __init__(self, offsets: OffsetMap, start_offset: int, aborted: Iterable[AbortedTransaction]) -> None:
        self._offsets = offsets
        self._start_offset = start_offset
        # One that ended below has no marker from here on: it would never end, and include the producer's later ones.
        self._transactions = CleanedTransactions([each for each in aborted if each.last_offset >= start_offset])
        self.is_full = False

    def add(self, chunk: memoryview) -> int:
        """Add the keys of whole batches until the map is full; returns the offset after the last batch read.

        Raises InvalidRecordBatch when a batch cannot be decoded.
        """
        next_offset = 0
        if self.is_full:
            return next_offset
        for header in iter_headers(chunk):
            next_offset = header.next_offset
            if header.is_control:
                self._transactions.add_control_batch(chunk, header)
            elif not self._transactions.add_batch(header) and not self._add_batch(chunk, header):
                self.is_full = True
                return next_offset
            self.passed(header.next_offset)
        return next_offset

    def _add_batch(self, chunk: memoryview, header: BatchHeader) -> bool:
        put, start_offset = self._offsets.put, self._start_offset
        for record in read_raw_records(chunk, header):
            if record.key is not None and record.offset >= start_offset and not put(record.key, record.offset):
                return False
        return True

    def passed(self, next_offset: int) -> None:
        """Record that everything below `next_offset` has been read."""
        if next_offset > self._start_offset:
            self._offsets.latest_offset = max(self._offsets.latest_offset, next_offset - 1)


class BatchFilter:
    """The second pass: filters the batches of the log, from its beginning, in offset order.

    `end_offset` is the end of the cleanable part. The batch that ends there is kept, without records if necessary, so
    that the log end offset is preserved. The last batch of each active producer is kept too, for its sequence.
    """

    def __init__(
        self,
        offsets: OffsetMap,
        aborted: Iterable[AbortedTransaction],
        *,
        end_offset: int,
        delete_retention_ms: int,
        now_ms: int,
    ) -> None:
        self._offsets = offsets
        self._transactions = CleanedTransactions(aborted)
        self._end_offset = end_offset
        self._horizon_ms = now_ms + delete_retention_ms
        self._now_ms = now_ms
        self.last_entries: Mapping[int, LastEntry] = {}

    def take_reported(self) -> Sequence[AbortedTransaction]:
        """Returns the aborted transactions found since the last call that Fetch must still report to readers."""
        reported, self._transactions.reported = self._transactions.reported, []
        return reported

    def keep(self, chunk: memoryview) -> tuple[list[StoredBatch], int]:
        """Returns copies of the batches to keep, and the offset after the last batch read.

        Raises InvalidRecordBatch when a batch cannot be decoded.
        """
        kept: list[StoredBatch] = []
        next_offset = 0
        for header in iter_headers(chunk):
            next_offset = header.next_offset
            data = self._keep_batch(chunk, header)
            if data is not None:
                newest = parse_header(data).max_timestamp
                kept.append(StoredBatch(header.base_offset, header.last_offset, newest, data))
        return kept, next_offset

    def _keep_batch(self, chunk: memoryview, header: BatchHeader) -> bytes | None:
        if header.is_control:
            useless = self._transactions.add_control_batch(chunk, header)
            horizon_ms = header.delete_horizon_ms
            void = useless and horizon_ms is not None and horizon_ms <= self._now_ms
        else:
            useless = void = self._transactions.add_batch(header)
        # The records are decoded twice, if need be, and never held all at once: a batch may contain millions.
        section = b"" if void else bytes(records_section(chunk, header))
        is_retained, has_tombstone = (b"", False) if void else self._select(section, header)
        if not any(is_retained):
            return without_records(header) if self._must_stay(header) else None
        # The first cleaning that finds a tombstone or a removable marker sets the horizon; one after it removes them.
        waits = header.delete_horizon_ms is None and ((useless and header.is_control) or has_tombstone)
        if all(is_retained) and not waits:
            return bytes(batch_bytes(chunk, header))
        retained = compress(read_raw_section(section, header), is_retained)
        return retain_records(header, retained, delete_horizon_ms=self._horizon_ms if waits else None)

    def _select(self, section: bytes, header: BatchHeader) -> tuple[bytes | bytearray, bool]:
        """Returns for each record whether it is retained, one byte each, and whether a retained one is a tombstone."""
        is_retained, has_tombstone = bytearray(), False
        for record in read_raw_section(section, header):
            retains = header.is_control or self._is_newest(header, record)
            is_retained.append(retains)
            has_tombstone = has_tombstone or (retains and record.is_tombstone)
        return is_retained, has_tombstone

    def _is_newest(self, header: BatchHeader, record: RawRecord) -> bool:
        if record.offset > self._offsets.latest_offset:
            return True
        if record.key is None or record.offset < self._offsets.get(record.key):
            return False
        horizon_ms = header.delete_horizon_ms
        return not record.is_tombstone or horizon_ms is None or self._now_ms < horizon_ms

    def _must_stay(self, header: BatchHeader) -> bool:
        if header.next_offset == self._end_offset:
            return True
        last = self.last_entries.get(header.producer_id) if header.producer_id >= 0 else None
        if last is None:
            return False
        if last.last_offset >= 0:
            return header.last_offset == last.last_offset
        # No batch of the producer's current epoch is known: the marker that set the epoch is kept.
        return header.is_control and header.producer_epoch == last.producer_epoch
