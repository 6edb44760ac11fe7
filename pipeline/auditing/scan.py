"""Reads a topic's partitions as their brokers store them: the facts of each partition, and samples of all records."""

from collections import Counter
from collections.abc import Callable, Iterator

from odradek.pipeline.auditing.facts import PartitionFacts
from odradek.pipeline.auditing.samples import Placement, Samples
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.segments.reading import decoder
from odradek.pipeline.segments.rows import Columns, RowFilter, Section
from odradek.pipeline.topic_partition import TopicPartition
from odradek.pipeline.wire_client import READ_UNCOMMITTED, Fetched, WireClient
from odradek.pipeline.wire_socket import error_name
from odradek.wire.errors import ErrorCode
from odradek.wire.records.batch import BatchHeader, check_crc, iter_headers
from odradek.wire.records.errors import CorruptBatch, InvalidRecordBatch
from odradek.wire.records.reader import ControlType, read_control_marker, records_section

FETCH_BYTES = 8 * 1024 * 1024
ONE_BATCH_BYTES = 1
"""Fetches one batch: the first batch is returned whole, whatever its size."""
Advance = Callable[[int, int], None]
"""Called with the number of offsets and bytes read since the last call."""
Damaged = Callable[[int, int, str], None]
"""Called with offsets that cannot be read, from the first up to, but excluding, the second, and the reason."""


def batches(
    client: WireClient,
    place: TopicPartition,
    start: int,
    end: int,
    damaged: Damaged,
    isolation: int = READ_UNCOMMITTED,
) -> Iterator[tuple[BatchHeader, Fetched]]:
    """Yield each stored batch with a valid checksum from `start` on that begins below `end`, with the fetch that
    returned it.

    Calls `damaged` for a damaged range, and continues with the next readable batch. Raises PipelineError if the log
    does not have the offsets.
    """
    position = start
    while position < end:
        before = position
        try:
            fetched = _fetch(client, place, position, FETCH_BYTES, isolation)
            for header in iter_headers(fetched.records, allow_partial_tail=True):
                if header.next_offset <= position:
                    continue
                if header.base_offset >= end:
                    return
                check_crc(fetched.records, header)
                yield header, fetched
                position = header.next_offset
        except InvalidRecordBatch as error:
            after = _next_readable(client, place, position, end, isolation)
            damaged(position, after, str(error))
            position = after
        if position == before:
            return  # only offsets that are not written yet


def _fetch(client: WireClient, place: TopicPartition, position: int, size_bytes: int, isolation: int) -> Fetched:
    fetched = client.fetch(
        {place: position}, max_bytes=size_bytes, partition_max_bytes=size_bytes, isolation=isolation
    )[place]
    if fetched.error == ErrorCode.CORRUPT_MESSAGE:
        raise CorruptBatch("the broker finds it damaged")
    if fetched.error:
        raise PipelineError(f"{place.topic}-{place.partition} at offset {position}: {error_name(fetched.error)}")
    return fetched


def _next_readable(client: WireClient, place: TopicPartition, damaged: int, end: int, isolation: int) -> int:
    """Return the first offset after a damaged batch from which a batch can be read, `end` if there is none below.

    The length in the damaged batch's header may be wrong. So the offset is found by doubling steps and then by
    bisection, with a few requests for one batch each.
    """
    last_bad, step = damaged, 1
    while last_bad + step < end and not _is_readable(client, place, last_bad + step, isolation):
        last_bad, step = last_bad + step, 2 * step
    good = min(last_bad + step, end)
    while good - last_bad > 1:
        middle = (last_bad + good) // 2
        if _is_readable(client, place, middle, isolation):
            good = middle
        else:
            last_bad = middle
    return good


def _is_readable(client: WireClient, place: TopicPartition, position: int, isolation: int) -> bool:
    try:
        fetched = _fetch(client, place, position, ONE_BATCH_BYTES, isolation)
        header = next(iter_headers(fetched.records), None)
        if header is None:
            return True
        check_crc(fetched.records, header)
    except InvalidRecordBatch:
        return False
    return header.next_offset > position


def scan(
    client: WireClient,
    facts: PartitionFacts,
    place: TopicPartition,
    samples: Samples,
    placement: Placement,
    advance: Advance,
) -> None:
    """Read a whole partition once. Damaged batches are reported as problems of the partition, and skipped."""
    one = _Scan(facts, samples, placement)
    reached = facts.start_offset
    for header, fetched in batches(client, place, facts.start_offset, facts.end_offset, facts.see_damage):
        try:
            one.see(header, fetched.records)
        except InvalidRecordBatch as error:
            facts.see_damage(header.base_offset, header.next_offset, str(error))
        advance(header.next_offset - reached, header.size_bytes)
        reached = header.next_offset
    facts.end()


class _Scan:
    """One partition, batch after batch."""

    def __init__(self, facts: PartitionFacts, samples: Samples, placement: Placement) -> None:
        self._facts, self._samples, self._placement = facts, samples, placement
        self._decode = decoder().decode
        self._filter = RowFilter(facts.start_offset, facts.end_offset)
        self._latest_us = -1

    def see(self, header: BatchHeader, records: memoryview) -> None:
        """Process a batch. Raises InvalidRecordBatch; then nothing has changed."""
        if header.is_control:
            kind = read_control_marker(records[header.position : header.end_position]).type
            ends = kind in {ControlType.ABORT, ControlType.COMMIT}
            self._facts.see_marker(header, aborts=kind is ControlType.ABORT, of_transaction=ends)
            return
        section = Section(header, records_section(records, header))
        columns = self._decode([section], self._filter, with_headers=False)
        self._facts.see(header)
        self._facts.plain_bytes(header, len(section.data))
        self._see_records(columns)

    def _see_records(self, columns: Columns) -> None:
        times = columns.timestamp.cast("int64").to_pylist()
        partition, misplaced, regressions = self._facts.partition, 0, 0
        keys = columns.key.to_pylist()
        for key, value, time_us in zip(keys, columns.value.to_pylist(), times, strict=True):
            self._samples.keys.add(key)
            self._samples.likeness.add(key, value, time_us)
            misplaced += key is not None and self._placement.partition_of(key) != partition
            regressions += time_us < self._latest_us
            self._latest_us = max(self._latest_us, time_us)
        self._facts.see_keys(len(keys) - keys.count(None), misplaced)
        for second, count in Counter([time_us // 1_000_000 for time_us in times]).items():
            self._facts.timeline.add(second * 1_000, count)
        if times:
            self._facts.see_times(min(times) // 1000, max(times) // 1000, regressions)


def ends_of(client: WireClient, places: list[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
    """Return the log start and the high watermark of each partition."""
    starts, highs = client.list_offsets(places, -2), client.list_offsets(places, -1)
    return {place: (starts[place], highs[place]) for place in places}
