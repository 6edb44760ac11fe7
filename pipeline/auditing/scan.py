"""Reads a topic's partitions as their brokers store them: the facts of each, and its committed records as columns."""

from collections import Counter
from collections.abc import Callable, Iterator

from odradek.pipeline.auditing.facts import PartitionFacts
from odradek.pipeline.auditing.samples import Samples
from odradek.pipeline.cluster import TopicPartition
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.segments.reading import decoder
from odradek.pipeline.segments.rows import Columns, RowFilter, Section
from odradek.pipeline.wire_client import READ_UNCOMMITTED, WireClient
from odradek.pipeline.wire_socket import error_name
from odradek.wire.records.batch import BatchHeader, check_crc, iter_headers
from odradek.wire.records.errors import InvalidRecordBatch
from odradek.wire.records.reader import ControlType, read_control_marker, records_section

FETCH_BYTES = 8 * 1024 * 1024
Advance = Callable[[int, int], None]
"""Called with records and bytes that have been read since the last call."""


def batches(
    client: WireClient, place: TopicPartition, start: int, end: int
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Each stored batch from `start` on that begins below `end`, with the buffer that it lies in, its checksum right.

    Raises PipelineError where the log does not have them, and for a batch that is not as it was written.
    """
    position = start
    while position < end:
        fetched = client.fetch(
            {place: position},
            max_bytes=FETCH_BYTES,
            partition_max_bytes=FETCH_BYTES,
            isolation=READ_UNCOMMITTED,
        )[place]
        if fetched.error:
            raise PipelineError(f"{place.topic}-{place.partition} at offset {position}: {error_name(fetched.error)}")
        before = position
        for header in iter_headers(fetched.records, allow_partial_tail=True):
            if header.next_offset <= position:
                continue
            if header.base_offset >= end:
                return
            check_crc(fetched.records, header)
            yield header, fetched.records
            position = header.next_offset
        if position == before:
            return  # nothing but what is not there yet


def scan(client: WireClient, facts: PartitionFacts, place: TopicPartition, samples: Samples, advance: Advance) -> None:
    """Read a whole partition once. A damaged batch is a problem of the partition, and ends its scan."""
    decode = decoder().decode
    latest_us = -1
    try:
        for header, records in batches(client, place, facts.start_offset, facts.end_offset):
            advance(header.record_count, header.size_bytes)
            if header.is_control:
                _see_marker(facts, header, records)
                continue
            facts.see(header)
            section = Section(header, records_section(records, header))
            facts.plain_bytes(header, len(section.data))
            columns = decode([section], RowFilter(facts.start_offset, facts.end_offset), with_headers=False)
            latest_us = _see_records(facts, samples, columns, latest_us)
    except InvalidRecordBatch as error:
        facts.problem("damaged batch", 1, str(error))
        return
    facts.end()


def _see_marker(facts: PartitionFacts, header: BatchHeader, records: memoryview) -> None:
    kind = read_control_marker(records[header.position : header.end_position]).type
    ends = kind in {ControlType.ABORT, ControlType.COMMIT}
    facts.see_marker(header, aborts=kind is ControlType.ABORT, of_transaction=ends)


def _see_records(facts: PartitionFacts, samples: Samples, columns: Columns, latest_us: int) -> int:
    times = columns.timestamp.cast("int64").to_pylist()
    regressions = 0
    for key, value, time_us in zip(columns.key.to_pylist(), columns.value.to_pylist(), times, strict=True):
        samples.keys.add(key)
        samples.likeness.add(key, value, time_us)
        regressions += time_us < latest_us
        latest_us = max(latest_us, time_us)
    for second, count in Counter([time_us // 1_000_000 for time_us in times]).items():
        facts.timeline.add(second * 1_000, count)
    if times:
        facts.see_times(min(times) // 1000, max(times) // 1000, regressions)
    return latest_us


def ends_of(client: WireClient, places: list[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
    """The log start and the high watermark of each partition."""
    starts, highs = client.list_offsets(places, -2), client.list_offsets(places, -1)
    return {place: (starts[place], highs[place]) for place in places}
