"""Makes record batches of pending records: by partition, in order, none larger than its topic allows."""

from collections.abc import Iterable, Sequence
from typing import Final

from odradek.storage_backends.outbox import OutboxRecord, TopicPartition
from odradek.wire.records.batch import HEADER_BYTES
from odradek.wire.records.builder import SimpleRecord, build_batch

_RECORD_OVERHEAD_BYTES: Final = 40
"""Upper bound of a record's bytes besides its contents: lengths, attributes, deltas."""
_HEADER_OVERHEAD_BYTES: Final = 10


def by_place(records: Iterable[OutboxRecord]) -> dict[TopicPartition, list[OutboxRecord]]:
    """The records of each partition, in their order."""
    by_partition: dict[TopicPartition, list[OutboxRecord]] = {}
    for record in records:
        by_partition.setdefault(record.place, []).append(record)
    return by_partition


def in_batches(records: Sequence[OutboxRecord], max_bytes: int) -> list[list[OutboxRecord]]:
    """Divide the records so that each part makes a batch of at most `max_bytes`, unless it has a single record."""
    parts: list[list[OutboxRecord]] = []
    left = 0
    for record in records:
        size_bytes = _size_bytes(record)
        if not parts or size_bytes > left:
            parts.append([])
            left = max_bytes - HEADER_BYTES
        parts[-1].append(record)
        left -= size_bytes
    return parts


def encoded(records: Iterable[OutboxRecord]) -> memoryview:
    """One batch of the records, like that of a producer without an id."""
    return memoryview(
        build_batch([SimpleRecord(each.key, each.value, each.timestamp_ms, each.headers) for each in records])
    )


def _size_bytes(record: OutboxRecord) -> int:
    """Upper bound of the record's bytes in a batch."""
    contents = len(record.key or b"") + len(record.value or b"")
    headers = sum([len(name.encode()) + len(value or b"") + _HEADER_OVERHEAD_BYTES for name, value in record.headers])
    return contents + headers + _RECORD_OVERHEAD_BYTES
