"""Truncation of one segment, in one transaction."""

from collections.abc import Mapping

from odradek.storage_backends.lmdb_segments.layout import META_KEY, TIME, U64, SegmentMeta
from odradek.storage_backends.lmdb_segments.segment import LogDb, WriteTxn
from odradek.storage_backends.lmdb_segments.tables import LogRows, below, replace_rows, rows
from odradek.storage_backends.planning import NO_TIMESTAMP
from odradek.wire.records.batch import iter_headers, trim_before_offset


def truncate_segment(
    tables: tuple[WriteTxn, LogDb],
    meta: SegmentMeta,
    kept: LogRows,
    rebuilt: Mapping[int, bytes],
    end_offset: int,
    log_start_offset: int,
) -> SegmentMeta:
    """Truncate the segment that contains `end_offset`, as `PartitionStore.truncate` describes; return its new meta.
    `rebuilt` replaces dropped rows. `kept` and `log_start_offset` are the log's current ones: those in a sealed segment
    are as of its end.
    """
    txn, log = tables
    cut, first_key, dropped_bytes = _cut_log(txn, log, end_offset)
    if first_key is not None:
        _cut_time_index(txn, first_key)
    size_bytes = meta.size_bytes - dropped_bytes
    meta = SegmentMeta(
        meta.base_offset,
        min(log_start_offset, cut),
        min(meta.log_end_offset, cut),
        size_bytes,
        meta.first_timestamp_ms if size_bytes else NO_TIMESTAMP,
        meta.max_timestamp_ms if first_key is None else _max_timestamp(txn, log),
        min(meta.indexed_bytes, size_bytes),
    )
    replace_rows(txn, below(kept, cut, rebuilt))
    txn.put(META_KEY, meta.pack())
    return meta


def _cut_log(txn: WriteTxn, log: LogDb, end_offset: int) -> tuple[int, bytes | None, int]:
    """Drop batches; return the cut, the key of the first affected value (None: no batch is dropped) and the number of
    bytes dropped.
    """
    cursor = txn.cursor(db=log)
    if not cursor.set_range(U64.pack(end_offset)):
        return end_offset, None, 0
    first_key, value = cursor.item()
    kept = bytes(trim_before_offset(value, end_offset))
    cut = min(end_offset, U64.unpack_from(value, len(kept))[0])
    dropped_bytes = -len(kept)
    while cursor.key():
        dropped_bytes += len(cursor.value())
        cursor.delete()
    if kept:
        last_offset = max(header.last_offset for header in iter_headers(kept))
        txn.put(U64.pack(last_offset), kept, append=True, db=log)
    return cut, first_key, dropped_bytes


def _cut_time_index(txn: WriteTxn, first_key: bytes) -> None:
    for key in [key for key, value in rows(txn, TIME) if value >= first_key]:
        txn.delete(key)


def _max_timestamp(txn: WriteTxn, log: LogDb) -> int:
    """Return the largest remaining timestamp: the last of the index, or one of a batch after that entry's value."""
    cursor = txn.cursor()
    largest, start = NO_TIMESTAMP, b""
    if cursor.last() and cursor.key()[:1] == TIME:
        largest = U64.unpack(cursor.key()[1:])[0]
        start = cursor.value()
    values = txn.cursor(db=log)
    found = values.set_range(start)
    while found:
        largest = max([largest, *(header.max_timestamp for header in iter_headers(values.value()))])
        found = values.next()
    return largest
