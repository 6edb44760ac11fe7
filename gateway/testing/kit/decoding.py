"""Decodes what a Fetch returns, as Kafka's consumer does: without markers, and without aborted transactions."""

from collections.abc import Iterator
from typing import NamedTuple

from odradek.gateway.testing.kit.values import Record
from odradek.wire.messages.fetch import PartitionData
from odradek.wire.records.batch import BatchHeader, iter_headers
from odradek.wire.records.reader import ControlType, read_control_marker, read_records


class Page(NamedTuple):
    """The records of a fetch from one position, and the position of the next."""

    records: list[Record]
    position: int


def page_of(topic: str, data: PartitionData, position: int) -> Page:
    """The records from `position` on.

    A fetch of committed records lists the aborted transactions among them, which are left out; one of all records lists
    none.
    """
    chunk = _chunk(data)
    aborted = sorted(data.aborted_transactions or (), key=lambda each: each.first_offset)
    open_aborted: set[int] = set()
    found: list[Record] = []
    for header in iter_headers(chunk, allow_partial_tail=True):
        while aborted and aborted[0].first_offset <= header.last_offset:
            open_aborted.add(aborted.pop(0).producer_id)
        if header.is_control:
            if _aborts(chunk, header):
                open_aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in open_aborted):
            found += [each for each in _records(topic, data.partition_index, chunk, header) if each.offset >= position]
        position = max(position, header.next_offset)
    return Page(found, position)


def _chunk(data: PartitionData) -> memoryview:
    records = data.records or b""
    return memoryview(records if isinstance(records, bytes | bytearray | memoryview) else b"".join(records))


def _aborts(chunk: memoryview, header: BatchHeader) -> bool:
    # Compaction keeps the batch of an active producer's last marker, but not the record in it.
    return bool(header.record_count) and read_control_marker(chunk, header).type is ControlType.ABORT


def _records(topic: str, partition: int, chunk: memoryview, header: BatchHeader) -> Iterator[Record]:
    for each in read_records(chunk, header):
        yield Record(topic, partition, each.offset, each.timestamp_ms, each.key, each.value, tuple(each.headers))
