"""Helpers that fill and read a log."""

from collections.abc import Sequence

from odradek.partitions.model import LogWrite, StoredBatch
from odradek.storage_backends.interface import PartitionStore
from odradek.storage_backends.testing.batches import make_batch
from odradek.wire.records.batch import check_crc, iter_headers

_BIG = 2**31 - 1


def fill(log: PartitionStore, count: int, *, start: int = 0, size_bytes: int = 100) -> list[StoredBatch]:
    """Commit `count` batches of one offset each, one by one, with ascending timestamps (1000 + offset)."""
    payload = b"p" * size_bytes
    batches = [make_batch(n, max_timestamp_ms=1000 + n, payload=payload) for n in range(start, start + count)]
    for batch in batches:
        log.commit([LogWrite([batch])], sync=True)
    return batches


def read_all(log: PartitionStore, start_offset: int, end_offset: int = _BIG, max_bytes: int = _BIG) -> bytes:
    """Return the bytes of one read, and release the lease."""
    lease = log.read(start_offset, end_offset, max_bytes)
    content = b"".join(lease.chunks)
    lease.release()
    return content


def contents(log: PartitionStore) -> dict[int, bytes]:
    """Return all batches by base offset, after checking CRCs and that offsets are contiguous."""
    segments, snapshot = log.segments(), log.load()
    got: dict[int, bytes] = {}
    offset = snapshot.log_start_offset
    while offset < snapshot.log_end_offset:
        chunk = read_all(log, offset)
        for header in iter_headers(chunk):
            check_crc(chunk, header)
            assert header.base_offset <= offset
            offset = header.next_offset
            got[header.base_offset] = chunk[header.position : header.end_position]
    assert segments[-1].end_offset == offset
    return got


def joined(batches: Sequence[StoredBatch]) -> bytes:
    """Return the bytes of the batches, one after the other."""
    return b"".join([bytes(batch.data) for batch in batches])


def replace_run(log: PartitionStore, base_offset: int, end_offset: int, kept: Sequence[int]) -> None:
    """Replace a run of segments by one with only the batches at `kept`."""
    draft = log.draft(base_offset, end_offset)
    for offset in kept:
        draft.add([make_batch(offset, max_timestamp_ms=1000 + offset, payload=b"p" * 100)])
    draft.seal([])
    assert log.replace(draft)
    draft.discard()


def base_offsets(log: PartitionStore, start_offset: int = 0) -> list[int]:
    """Return the base offsets of all batches, in the order in which a reader gets them."""
    offset, end_offset, found = start_offset, log.load().log_end_offset, list[int]()
    while offset < end_offset:
        headers = list(iter_headers(read_all(log, offset)))
        found += [header.base_offset for header in headers]
        offset = headers[-1].next_offset if headers else end_offset
    return found
