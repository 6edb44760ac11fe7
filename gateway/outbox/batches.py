"""What is pending becomes record batches: by partition, in order, none larger than its topic allows."""

from collections.abc import Iterable, Sequence
from typing import Final

from odradek.storage_backends.outbox import OutboxRecord, TopicPartition
from odradek.wire.records.batch import HEADER_BYTES
from odradek.wire.records.builder import SimpleRecord, build_batch

_RECORD_OVERHEAD_BYTES: Final = 40
"""At most what a record has besides its contents: lengths, attributes, deltas."""
_HEADER_OVERHEAD_BYTES: Final = 10


def by_place(records: Iterable[OutboxRecord]) -> dict[TopicPartition, list[OutboxRecord]]:
    """The records of each partition, in their order."""
    places: dict[TopicPartition, list[OutboxRecord]] = {}
    for record in records:
        places.setdefault(record.place, []).append(record)
    return places


def in_batches(records: Sequence[OutboxRecord], max_bytes: int) -> list[list[OutboxRecord]]:
    """The records divided so that each part but one of a single record makes a batch of `max_bytes` at most."""
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
    """One batch of the records, as a producer without an id would send it."""
    return memoryview(
        build_batch([SimpleRecord(each.key, each.value, each.timestamp_ms, each.headers) for each in records])
    )


def _size_bytes(record: OutboxRecord) -> int:
    """The most that the record takes in a batch."""
    contents = len(record.key or b"") + len(record.value or b"")
    headers = sum([len(name.encode()) + len(value or b"") + _HEADER_OVERHEAD_BYTES for name, value in record.headers])
    return contents + headers + _RECORD_OVERHEAD_BYTES
