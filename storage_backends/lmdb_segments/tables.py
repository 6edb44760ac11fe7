"""Reads and writes of a segment within a transaction: batches and, with them, all other rows (see `layout`)."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import lmdb

from odradek.partitions.model import AbortedTransaction, LogSnapshot, LogWrite, StoredBatch
from odradek.storage_backends.interface import SegmentInfo
from odradek.storage_backends.lmdb_segments.layout import (
    ABORTED,
    ABORTED_KEY,
    CHECKSUM,
    CLEAN,
    EPOCH,
    EPOCH_KEY,
    EXTENT,
    GAP_PAIR,
    GAPS,
    META_KEY,
    PAIR,
    PRODUCER,
    ROW_KEY,
    SEALED,
    TIME,
    U64,
    SegmentMeta,
)
from odradek.storage_backends.lmdb_segments.segment import LogDb, WriteTxn
from odradek.storage_backends.options import StoreOptions
from odradek.storage_backends.planning import NO_TIMESTAMP, producers_below, visible_aborted, visible_epochs
from odradek.wire.records.crc import crc32c

_Bytes = bytes | bytearray | memoryview
_NEVER = U64.pack(0)
_VT = TypeVar("_VT", bound=bytes | memoryview)


class _Appender:
    """Joins the batches of one commit into values and appends them to the log."""

    __slots__ = (
        "_chunk",
        "_chunk_bytes",
        "_indexed_maximum",
        "_last_offset",
        "_log",
        "_options",
        "_txn",
        "indexed",
        "maximum",
        "size",
    )

    def __init__(self, txn: WriteTxn, log: LogDb, meta: SegmentMeta, options: StoreOptions) -> None:
        self._txn = txn
        self._log = log
        self._options = options
        self._chunk: list[_Bytes] = []
        self._chunk_bytes = 0
        self._last_offset = meta.log_end_offset - 1
        self.maximum = self._indexed_maximum = meta.max_timestamp_ms
        self.size = meta.size_bytes
        self.indexed = meta.indexed_bytes

    def add(self, batch: StoredBatch) -> None:
        size = len(batch.data)
        if self._chunk and self._chunk_bytes + size > self._options.max_value_bytes:
            self.flush()
        self._chunk.append(batch.data)
        self._chunk_bytes += size
        self._last_offset = batch.last_offset
        if batch.max_timestamp_ms > self.maximum:  # noqa: PLR1730 - hot
            self.maximum = batch.max_timestamp_ms

    def flush(self) -> None:
        if not self._chunk:
            return
        key = U64.pack(self._last_offset)
        value = self._chunk[0] if len(self._chunk) == 1 else b"".join(self._chunk)
        # The last `True` is `append`. Arguments are positional, since keywords double the time of the call.
        stored = self._txn.put(key, value, True, True, True, self._log)  # noqa: FBT003
        assert stored, "the log's keys only grow"
        if self.maximum > self._indexed_maximum and self._is_index_due():
            stored = self._txn.put(ROW_KEY.pack(TIME, self.maximum), key, append=True)
            assert stored, "the time index only grows"
            self._indexed_maximum = self.maximum
            self.indexed = self.size
        self.size += self._chunk_bytes
        self._chunk.clear()
        self._chunk_bytes = 0

    def _is_index_due(self) -> bool:
        return not self.size or self.size - self.indexed >= self._options.time_index_interval_bytes

    @property
    def log_end_offset(self) -> int:
        return self._last_offset + 1


def append_writes(
    txn: WriteTxn, log: LogDb, meta: SegmentMeta, writes: Sequence[LogWrite], options: StoreOptions
) -> SegmentMeta:
    """Write all of `writes` and return the new meta row."""
    appender = _Appender(txn, log, meta, options)
    log_start_offset = meta.log_start_offset
    producers: dict[int, tuple[int, bytes | None]] = {}
    for write in writes:
        for batch in write.batches:
            appender.add(batch)
        for producer_id, state in write.producers.items():
            producers[producer_id] = (appender.log_end_offset, state)
        if write.log_start_offset is not None:
            log_start_offset = max(log_start_offset, write.log_start_offset)
        if write.clean_offset is not None:
            txn.put(CLEAN, U64.pack(write.clean_offset))
        if write.epochs or write.aborted:
            _put_history(txn, write)
    appender.flush()
    if producers:
        _put_producers(txn, producers)
    meta = SegmentMeta(
        meta.base_offset,
        log_start_offset,
        appender.log_end_offset,
        appender.size,
        meta.first_timestamp_ms if meta.size_bytes else _first_timestamp(meta, writes),
        appender.maximum,
        appender.indexed,
    )
    txn.put(META_KEY, meta.pack())
    return meta


def put_gaps(txn: WriteTxn, log_end_offset: int, writes: Iterable[LogWrite]) -> None:
    """Write a row with the gaps before the batches of `writes`, if there are any, so that a salvage can distinguish
    them from batches that are lost. `log_end_offset` is that before the writes.
    """
    gaps: list[bytes] = []
    last_offset = -1
    for write in writes:
        for batch in write.batches:
            if batch.base_offset != log_end_offset:
                gaps.append(GAP_PAIR.pack(log_end_offset, batch.base_offset))
                last_offset = batch.base_offset
            log_end_offset = batch.last_offset + 1
    if gaps:
        value = b"".join(gaps)
        txn.put(ROW_KEY.pack(GAPS, last_offset), CHECKSUM.pack(crc32c(value)) + value)


def read_gaps(txn: WriteTxn, base_offset: int) -> frozenset[tuple[int, int]]:
    """Read the gaps that were written with the one before `base_offset`, each as the offset at which it begins and the
    one at which it ends; none if there is no valid row. The segment may be damaged.
    """
    _, row = next(rows(txn, GAPS, ROW_KEY.pack(GAPS, base_offset)), (b"", b""))
    value = row[CHECKSUM.size :]
    if not value or row[: CHECKSUM.size] != CHECKSUM.pack(crc32c(value)):
        return frozenset()
    return frozenset((start, end) for start, end in GAP_PAIR.iter_unpack(value))


def _first_timestamp(meta: SegmentMeta, writes: Sequence[LogWrite]) -> int:
    batches = (batch for write in writes for batch in write.batches)
    return next((batch.max_timestamp_ms for batch in batches), meta.first_timestamp_ms)


def _put_history(txn: WriteTxn, write: LogWrite) -> None:
    for epoch in write.epochs:
        txn.put(EPOCH_KEY.pack(EPOCH, epoch.leader_epoch), U64.pack(epoch.start_offset))
    for each in write.aborted:
        key = ABORTED_KEY.pack(ABORTED, each.last_offset, each.producer_id)
        txn.put(key, PAIR.pack(each.first_offset, each.last_stable_offset))


def _put_producers(txn: WriteTxn, producers: Mapping[int, tuple[int, bytes | None]]) -> None:
    for producer_id, (end_offset, state) in producers.items():
        key = ROW_KEY.pack(PRODUCER, producer_id)
        if state is None:
            txn.delete(key)
        else:
            txn.put(key, U64.pack(end_offset) + state)


def rows(txn: "lmdb.Transaction[_VT]", prefix: bytes, first_key: bytes = b"") -> Iterator[tuple[_VT, _VT]]:
    """Yield the rows of one kind, in order of their keys; with `first_key`, only from there."""
    cursor = txn.cursor()
    found = cursor.set_range(first_key or prefix)
    while found:
        key, value = cursor.item()
        if key[:1] != prefix:
            return
        yield key, value
        found = cursor.next()


class LogRows(NamedTuple):
    """A segment's decoded rows, except batches and time index. `producers` are (log end when set, state)."""

    epochs: dict[int, int]
    producers: dict[int, tuple[int, bytes]]
    aborted: list[AbortedTransaction]
    sealed: list[SegmentInfo]
    clean_offset: int = 0


def read_rows(txn: WriteTxn) -> LogRows:
    """Read all rows."""
    return _decoded(lambda prefix: rows(txn, prefix), txn.get(CLEAN, _NEVER))


def read_producers(txn: "lmdb.Transaction[_VT]") -> dict[int, bytes]:
    """Read only the producers' states."""
    return {ROW_KEY.unpack(key)[1]: bytes(value[8:]) for key, value in rows(txn, PRODUCER)}


def read_own_aborted(txn: WriteTxn, base_offset: int) -> list[AbortedTransaction]:
    """Read the aborted transactions that end in the segment that begins at `base_offset`, which `txn` reads."""
    return [_aborted(key, value) for key, value in rows(txn, ABORTED, ABORTED_KEY.pack(ABORTED, base_offset, 0))]


def log_values(txn: WriteTxn, log: LogDb) -> Iterator[bytes]:
    """Yield the values of the log, in offset order: whole batches."""
    cursor = txn.cursor(db=log)
    found = cursor.first()
    while found:
        yield cursor.value()
        found = cursor.next()


def decode_rows(stored: Mapping[bytes, bytes]) -> LogRows:
    """Decode rows that were not read in an LMDB transaction."""
    ordered = sorted(stored.items())
    return _decoded(lambda prefix: [row for row in ordered if row[0][:1] == prefix], stored.get(CLEAN, _NEVER))


def _decoded(find: Callable[[bytes], Iterable[tuple[bytes, bytes]]], clean: bytes) -> LogRows:
    return LogRows(
        {EPOCH_KEY.unpack(key)[1]: U64.unpack(value)[0] for key, value in find(EPOCH)},
        {ROW_KEY.unpack(key)[1]: (U64.unpack_from(value)[0], value[8:]) for key, value in find(PRODUCER)},
        [_aborted(key, value) for key, value in find(ABORTED)],
        [_sealed(key, value) for key, value in find(SEALED)],
        U64.unpack(clean)[0],
    )


def _aborted(key: bytes, value: bytes) -> AbortedTransaction:
    _, last_offset, producer_id = ABORTED_KEY.unpack(key)
    first_offset, last_stable_offset = PAIR.unpack(value)
    return AbortedTransaction(producer_id, first_offset, last_offset, last_stable_offset)


def _sealed(key: bytes, value: bytes) -> SegmentInfo:
    return SegmentInfo(ROW_KEY.unpack(key)[1], *EXTENT.unpack(value), sealed=True)


def put_rows(txn: WriteTxn, carried: LogRows) -> None:
    """Write the rows to a segment that has no rows of these kinds."""
    _put_producers(txn, carried.producers)
    _put_history(txn, LogWrite(epochs=visible_epochs(carried.epochs, 0), aborted=carried.aborted))
    if carried.clean_offset:
        txn.put(CLEAN, U64.pack(carried.clean_offset))
    for info in carried.sealed:
        _put_sealed(txn, info)


def _put_sealed(txn: WriteTxn, info: SegmentInfo) -> None:
    value = EXTENT.pack(info.end_offset, info.size_bytes, info.max_timestamp_ms)
    txn.put(ROW_KEY.pack(SEALED, info.base_offset), value)


def adopt_cleaned(txn: WriteTxn, info: SegmentInfo, aborted: Sequence[AbortedTransaction]) -> None:
    """Replace the rows of the sealed segments in the range of `info` by `info`, and their aborted transactions by
    `aborted`.
    """
    for key, value in list(rows(txn, SEALED)):
        if info.base_offset <= _sealed(key, value).base_offset < info.end_offset:
            txn.delete(key)
    for key, value in list(rows(txn, ABORTED)):
        if info.base_offset <= _aborted(key, value).last_offset < info.end_offset:
            txn.delete(key)
    _put_sealed(txn, info)
    _put_history(txn, LogWrite(aborted=aborted))


def alive(kept: LogRows, log_start_offset: int) -> LogRows:
    """Return the rows without those that only concern offsets below the log start."""
    epochs = visible_epochs(kept.epochs, log_start_offset)
    return LogRows(
        {each.leader_epoch: each.start_offset for each in epochs},
        kept.producers,
        list(visible_aborted(kept.aborted, log_start_offset)),
        [info for info in kept.sealed if info.end_offset > log_start_offset],
        kept.clean_offset,
    )


def below(kept: LogRows, cut: int, rebuilt: Mapping[int, bytes]) -> LogRows:
    """Return the rows that remain after a truncation at `cut`; see `PartitionStore.truncate` about `rebuilt`."""
    return LogRows(
        {epoch: start for epoch, start in kept.epochs.items() if start < cut},
        producers_below(kept.producers, cut, rebuilt),
        [each for each in kept.aborted if each.last_offset < cut],
        [info for info in kept.sealed if info.end_offset <= cut],
        min(kept.clean_offset, cut),
    )


def replace_rows(txn: WriteTxn, kept: LogRows) -> None:
    """Replace the segment's rows by `kept`."""
    for prefix in (ABORTED, CLEAN, EPOCH, PRODUCER, SEALED):
        for key in [key for key, _ in rows(txn, prefix)]:
            txn.delete(key)
    put_rows(txn, kept)


def snapshot(meta: SegmentMeta, kept: LogRows) -> LogSnapshot:
    """Return the log's snapshot from the active segment's rows."""
    start_offset = meta.log_start_offset
    sealed_maxima = [info.max_timestamp_ms for info in kept.sealed if info.end_offset > start_offset]
    return LogSnapshot(
        log_start_offset=start_offset,
        log_end_offset=meta.log_end_offset,
        max_timestamp_ms=max([meta.max_timestamp_ms, *sealed_maxima], default=NO_TIMESTAMP),
        epochs=visible_epochs(kept.epochs, start_offset),
        producers={producer_id: state for producer_id, (_, state) in kept.producers.items()},
        aborted=visible_aborted(kept.aborted, start_offset),
        clean_offset=kept.clean_offset,
    )
