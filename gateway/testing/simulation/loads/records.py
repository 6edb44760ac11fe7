"""Decodes the batches that a fetch returns, as Kafka's consumer does."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from odradek.gateway.testing.simulation.loads.oracle import Invariant, Violation
from odradek.wire.messages.fetch import PartitionData
from odradek.wire.records.batch import BatchHeader, check_crc, iter_headers
from odradek.wire.records.errors import InvalidRecordBatch
from odradek.wire.records.reader import ControlType, Record, read_control_marker, read_records


class Batch(NamedTuple):
    """A batch and its records; empty for a marker."""

    header: BatchHeader
    records: list[Record]
    aborts: bool = False
    """True for the marker of an aborted transaction."""


class Page(NamedTuple):
    """The records of a fetch from one position."""

    records: list[Record]
    position: int
    """The position of the next fetch."""
    leader_epoch: int
    """The leader epoch of the newest batch; -1 without a batch."""


def values_of(records: Sequence[Record]) -> list[tuple[int, str]]:
    """Offsets and values."""
    return [(record.offset, (record.value or b"").decode()) for record in records]


def read_page(part: PartitionData, position: int) -> Page:
    """All records from `position` on. Raises Violation for corrupt batches."""
    batches = _batches(part, position)
    return _page(position, batches, [record for batch in batches for record in batch.records])


def read_committed_page(part: PartitionData, position: int) -> Page:
    """The records from `position` on, without those of aborted transactions. Raises Violation as `read_page` does."""
    batches = _batches(part, position)
    pending = sorted(part.aborted_transactions or (), key=lambda each: each.first_offset)
    aborted: set[int] = set()
    found: list[Record] = []
    for batch in batches:
        while pending and pending[0].first_offset <= batch.header.last_offset:
            aborted.add(pending.pop(0).producer_id)
        if batch.aborts:
            aborted.discard(batch.header.producer_id)
        elif not (batch.header.is_transactional and batch.header.producer_id in aborted):
            found.extend(batch.records)
    return _page(position, batches, found)


def _page(position: int, batches: list[Batch], records: list[Record]) -> Page:
    newest = batches[-1].header if batches else None
    end, leader_epoch = (newest.next_offset, newest.partition_leader_epoch) if newest else (position, -1)
    return Page([record for record in records if record.offset >= position], end, leader_epoch)


def _batches(part: PartitionData, position: int) -> list[Batch]:
    try:
        return list(_decoded(part))
    except InvalidRecordBatch as error:
        raise Violation(Invariant.BYTES_KEPT, f"a fetch from {position}: {error}") from error


def _decoded(part: PartitionData) -> Iterator[Batch]:
    records = part.records or b""
    chunk = memoryview(records if isinstance(records, bytes | bytearray | memoryview) else b"".join(records))
    for header in iter_headers(chunk, allow_partial_tail=True):
        check_crc(chunk, header)
        batch = chunk[header.position : header.end_position]
        if header.is_control:
            # Compaction keeps the batch of an active producer's last marker, but not the record in it.
            marker = read_control_marker(batch) if header.record_count else None
            yield Batch(header, [], marker is not None and marker.type is ControlType.ABORT)
        else:
            yield Batch(header, list(read_records(batch)))
