"""Reading a segment: leases over LMDB's own pages, and the searches by time."""

import logging
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import lmdb

from odradek.storage_backends.interface import Rest
from odradek.storage_backends.lmdb_segments.layout import ROW_KEY, TIME, U64
from odradek.storage_backends.lmdb_segments.segment import LogDb, Segment
from odradek.storage_backends.planning import NO_TIMESTAMP
from odradek.wire.records.batch import BatchHeader, iter_headers, slice_from_offset, trim_before_offset, trim_to_bytes

_logger = logging.getLogger(__name__)

ReadTxn: TypeAlias = "lmdb.Transaction[memoryview]"

_REST: Final = (Rest.NOTHING, Rest.CUT)  # by whether batches do not fit


class PageLease:
    """Views of a segment's pages, which do not change while the read transaction is open."""

    __slots__ = ("_held", "chunks", "rest", "size_bytes")

    def __init__(self, segment: Segment, txn: ReadTxn, chunks: Sequence[memoryview], rest: Rest) -> None:
        self.chunks = chunks
        self.rest = rest
        self.size_bytes = sum([len(chunk) for chunk in chunks])
        self._held = [(segment, txn)]

    def release(self) -> None:
        """See `ReadLease.release`."""
        try:
            segment, txn = self._held.pop()
        except IndexError:
            return  # already released
        chunks, self.chunks = self.chunks, ()
        try:
            for chunk in chunks:
                chunk.release()
        except BufferError:
            # reading unmapped pages would kill the process, so they stay mapped
            _logger.exception("a lease of %s was released while its bytes were in use", segment.path)
            return
        txn.abort()
        segment.take_back()


class CopyLease:
    """Copied bytes, whose release does nothing."""

    __slots__ = ("chunks", "rest", "size_bytes")

    def __init__(self, chunks: Sequence[memoryview] = (), rest: Rest = Rest.NOTHING) -> None:
        self.rest = rest
        self.chunks = [memoryview(bytes(chunk)) for chunk in chunks]
        self.size_bytes = sum([len(chunk) for chunk in self.chunks])

    def release(self) -> None:
        """See `ReadLease.release`."""
        self.chunks = []


def lend(
    segment: Segment, start_offset: int, end_offset: int, max_bytes: int, max_leases: int, *, is_newest: bool
) -> PageLease | CopyLease | None:
    """Lend batches of one segment, as `PartitionStore.read` does; None if it has none of them.

    `is_newest`: no later segment begins at or below `end_offset`. The bytes are copied if `max_leases` leases of the
    segment are held, or its map has to grow soon (`segment`). Raises lmdb.Error, OSError, CorruptBatch.
    """
    handle = segment.pin()
    txn = lease = None
    try:
        txn = handle.env.begin(handle.log, None, False, True)  # noqa: FBT003 - positional: half the cost
        chunks, is_cut = _collect(txn.cursor(), start_offset, end_offset, max_bytes)
        if not chunks:
            return None
        rest = _REST[is_cut] if is_newest else Rest.NEWER_SEGMENT
        if segment.may_lend(max_leases):
            lease = PageLease(segment, txn, chunks, rest)
            return lease
        return CopyLease(chunks, rest)
    finally:
        if lease is None:
            if txn is not None:
                txn.abort()
            segment.unpin()


def _collect(
    cursor: "lmdb.Cursor[memoryview]", start_offset: int, end_offset: int, max_bytes: int
) -> tuple[list[memoryview], bool]:
    """Collect views of the values from `start_offset` on, and whether batches below `end_offset` do not fit.

    Only the first and the last are parsed.
    """
    if not cursor.set_range(U64.pack(start_offset)):
        return [], False
    items = cursor.iternext()
    key, value = next(items)
    if U64.unpack_from(value)[0] < start_offset:
        value = slice_from_offset(value, start_offset)
    keys, chunks = [key], [value]
    left_bytes = max_bytes - len(value)
    next_offset = end_offset
    if left_bytes < 0:
        chunks = [trim_to_bytes(value, max_bytes, keep_first=True)]
        if len(chunks[0]) < len(value):
            next_offset = U64.unpack_from(value, len(chunks[0]))[0]
    else:
        for key, value in items:
            left_bytes -= len(value)
            if left_bytes < 0:
                next_offset = U64.unpack_from(value)[0]
                break
            keys.append(key)
            chunks.append(value)
    _trim_end(keys, chunks, end_offset)
    return chunks, next_offset < end_offset


def _trim_end(keys: list[memoryview], chunks: list[memoryview], end_offset: int) -> None:
    """Drop batches that are not completely below `end_offset`. Keys are last offsets, so usually one check does."""
    while chunks and int.from_bytes(keys.pop(), "big") >= end_offset:
        chunk = trim_before_offset(chunks.pop(), end_offset)
        if chunk:
            chunks.append(chunk)
            return


def headers_from(txn: ReadTxn, log: LogDb, key: bytes, start_offset: int) -> Iterator[BatchHeader]:
    """Yield the headers of a segment from the value at `key` on, without batches that end below `start_offset`."""
    cursor = txn.cursor(db=log)
    found = cursor.set_range(key)
    while found:
        for header in iter_headers(cursor.value()):
            if header.last_offset >= start_offset:
                yield header
        found = cursor.next()


def first_batch_at(txn: ReadTxn, log: LogDb, timestamp_ms: int, start_offset: int) -> int | None:
    """Return the base offset of the first batch from `start_offset` on with at least that max timestamp."""
    key = max(_key_before(txn, timestamp_ms), U64.pack(start_offset))
    for header in headers_from(txn, log, key, start_offset):
        if header.max_timestamp >= timestamp_ms:
            return header.base_offset
    return None


def _key_before(txn: ReadTxn, timestamp_ms: int) -> bytes:
    """Return a key below which all values have only lower timestamps."""
    if timestamp_ms <= 0:
        return b""
    cursor = txn.cursor()
    found = cursor.prev() if cursor.set_range(ROW_KEY.pack(TIME, timestamp_ms)) else cursor.last()
    if not found or bytes(cursor.key()[:1]) != TIME:
        return b""
    return U64.pack(U64.unpack(cursor.value())[0] + 1)


def max_timestamp_from(txn: ReadTxn, log: LogDb, start_offset: int) -> int:
    """Return the largest timestamp of the segment's batches from `start_offset` on, -1 when there are none."""
    headers = headers_from(txn, log, U64.pack(start_offset), start_offset)
    return max((header.max_timestamp for header in headers), default=NO_TIMESTAMP)
