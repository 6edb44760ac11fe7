"""Reads records of the target topic, to find out what an earlier run has written, and whether it was one of this
job.
"""

from collections.abc import Iterator
from typing import Final

from odradek.pipeline.errors import PipelineError
from odradek.pipeline.topic_partition import TopicPartition
from odradek.pipeline.wire_client import WireClient
from odradek.pipeline.wire_socket import error_name
from odradek.wire.records.batch import BatchHeader, check_crc, iter_headers
from odradek.wire.records.reader import ControlType, Record, read_control_marker, read_records

FETCH_BYTES: Final = 1024 * 1024


def batches_between(
    client: WireClient, place: TopicPartition, start: int, end: int
) -> Iterator[tuple[memoryview, BatchHeader]]:
    """Yield the stored batches with offsets from `start` up to, but excluding, `end`, each with its buffer."""
    position = start
    while position < end:
        fetched = client.fetch({place: position}, max_bytes=FETCH_BYTES, partition_max_bytes=FETCH_BYTES)[place]
        if fetched.error:
            raise PipelineError(f"{place.topic}-{place.partition} at offset {position}: {error_name(fetched.error)}")
        before = position
        for header in iter_headers(fetched.records, allow_partial_tail=True):
            if header.last_offset < position:
                continue
            check_crc(fetched.records, header)
            yield fetched.records, header
            position = header.next_offset
            if position >= end:
                return
        if position == before and position >= fetched.high_watermark:
            return


def records_between(client: WireClient, place: TopicPartition, start: int, end: int) -> Iterator[Record]:
    """Yield the records in the range, committed or not, without markers."""
    for buffer, header in batches_between(client, place, start, end):
        if not header.is_control:
            for record in read_records(buffer, header):
                if start <= record.offset < end:
                    yield record


def committed_between(client: WireClient, place: TopicPartition, start: int, end: int) -> Iterator[Record]:
    """As `records_between`, without those of aborted transactions; each is yielded when its transaction ends.

    Records of a transaction without a marker are yielded last: compaction removes the marker of an aborted transaction
    only after its records, so the transaction was committed or is open.
    """
    open_transactions: dict[int, list[Record]] = {}
    for buffer, header in batches_between(client, place, start, end):
        if header.is_control:
            ended = open_transactions.pop(header.producer_id, [])
            if header.record_count and read_control_marker(buffer, header).type is not ControlType.ABORT:
                yield from ended
            continue
        records = [record for record in read_records(buffer, header) if start <= record.offset < end]
        if header.is_transactional:
            open_transactions.setdefault(header.producer_id, []).extend(records)
        else:
            yield from records
    for records in open_transactions.values():
        yield from records
