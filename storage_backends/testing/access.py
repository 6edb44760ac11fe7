"""Small helpers to fill and read a log."""

from collections.abc import Sequence

from storage_backends.interface import PartitionStore
from storage_backends.testing.batches import make_batch
from wire.log_values import LogWrite, StoredBatch

_BIG = 2**31 - 1


def fill(log: PartitionStore, count: int, *, start: int = 0, size_bytes: int = 100) -> list[StoredBatch]:
    """Commit `count` batches of one offset each, one by one, with rising timestamps (1000 + offset)."""
    payload = b"p" * size_bytes
    batches = [make_batch(n, max_timestamp_ms=1000 + n, payload=payload) for n in range(start, start + count)]
    for batch in batches:
        log.commit([LogWrite([batch])], sync=True)
    return batches


def read_all(log: PartitionStore, start_offset: int, end_offset: int = _BIG, max_bytes: int = _BIG) -> bytes:
    """Read once, and give the lease back."""
    lease = log.read(start_offset, end_offset, max_bytes)
    content = b"".join(lease.chunks)
    lease.release()
    return content


def joined(batches: Sequence[StoredBatch]) -> bytes:
    """Return the bytes of the batches, one after the other."""
    return b"".join([bytes(batch.data) for batch in batches])
