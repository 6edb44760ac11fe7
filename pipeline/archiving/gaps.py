"""Finds out why offsets have no record, from the headers of the broker's batches around them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from odradek.pipeline.topic_partition import TopicPartition
from odradek.pipeline.wire_client import Fetched, WireClient, check
from odradek.wire.errors import ErrorCode
from odradek.wire.records.batch import BatchHeader, iter_headers
from odradek.wire.records.reader import ControlType, read_control_marker

MARKER: Final = "transaction marker"
ABORTED: Final = "aborted"
COMPACTED: Final = "compacted"
UNEXPLAINED: Final = "unexplained"
FETCH_BYTES: Final = 16 * 1024 * 1024

Gap = tuple[int, int]
"""Offsets without a record: from the first up to, but excluding, the second."""


def explain(client: WireClient, place: TopicPartition, gaps: Sequence[Gap]) -> Counter[str]:
    """Count the offsets of `gaps`, which are in order, by reason. Reads the partition from the first gap on.

    A marker is a control batch; a record of an aborted transaction is in a batch of its producer before an ABORT
    marker; an offset in no batch, or missing inside one, was removed by compaction. An offset in a batch of committed
    records, or that the log no longer has, is unexplained. Raises PipelineError, BrokerError if a fetch is refused.
    """
    reasons = _Reasons(list(gaps))
    position, end = gaps[0][0], gaps[-1][1]
    while position < end or reasons.undecided:
        fetched = _fetch(client, place, position)
        if fetched.error:  # whether a marker followed cannot be seen any more
            return reasons.total(complete=position >= end, undecided=UNEXPLAINED)
        after = _advance(fetched, reasons, position)
        if after == position:
            break
        position = after
    return reasons.total(complete=position >= end, undecided=ABORTED)


def _fetch(client: WireClient, place: TopicPartition, position: int) -> Fetched:
    """Return the response, without an error or with OFFSET_OUT_OF_RANGE. Raises BrokerError for any other."""
    answers = client.fetch({place: position}, max_bytes=FETCH_BYTES, partition_max_bytes=FETCH_BYTES, max_wait_ms=0)
    fetched = answers[place]
    if fetched.error != ErrorCode.OFFSET_OUT_OF_RANGE:
        check(fetched.error, f"{place.topic}-{place.partition} at offset {position}")
    return fetched


def _advance(fetched: Fetched, reasons: "_Reasons", position: int) -> int:
    """Process a fetch; return the position after it."""
    for header in iter_headers(fetched.records, allow_partial_tail=True):
        if header.next_offset <= position:
            continue
        reasons.see(header, fetched.records)
        position = header.next_offset
    return position


@dataclass(slots=True)
class _Reasons:
    """Counts gaps up to the last processed batch; `undecided` are those that depend on a later marker of their
    producer.
    """

    gaps: list[Gap]
    counted: Counter[str] = field(default_factory=Counter[str])
    undecided: Counter[int] = field(default_factory=Counter[int])
    _index: int = 0
    _taken_to: int = 0

    def see(self, header: BatchHeader, records: memoryview) -> None:
        """Count the offsets of gaps in the batch, and between the previous batch and it."""
        self.counted[COMPACTED] += self._take(header.base_offset)
        missing = self._take(header.next_offset)
        if header.is_control:
            self.counted[MARKER] += missing
            self._decide(header, records)
            return
        holes = min(missing, header.next_offset - header.base_offset - header.record_count)
        self.counted[COMPACTED] += holes
        if header.is_transactional:
            self.undecided[header.producer_id] += missing - holes
            self.undecided = +self.undecided  # only producers of missing records: `explain` reads on for their markers
        else:
            self.counted[UNEXPLAINED] += missing - holes

    def _decide(self, header: BatchHeader, records: memoryview) -> None:
        missing = self.undecided.pop(header.producer_id, 0)
        if missing:
            end = header.position + header.size_bytes
            kind = read_control_marker(records[header.position : end]).type
            self.counted[ABORTED if kind is ControlType.ABORT else UNEXPLAINED] += missing

    def _take(self, end: int) -> int:
        """Return how many offsets of the gaps are below `end` and were not counted before."""
        taken = 0
        while self._index < len(self.gaps):
            first, last = self.gaps[self._index]
            first = max(first, self._taken_to)
            taken += max(0, min(last, end) - first)
            if last > end:
                break
            self._index += 1
        self._taken_to = max(self._taken_to, end)
        return taken

    def total(self, *, complete: bool, undecided: str) -> Counter[str]:
        """Return the counts. `undecided` is the reason for undecided offsets: at the end of the log they were aborted,
        and compaction has removed their marker. Offsets not reached are unexplained.
        """
        rest = self._take(self.gaps[-1][1])
        self.counted[COMPACTED if complete else UNEXPLAINED] += rest
        self.counted[undecided] += sum(self.undecided.values())
        return +self.counted


def missing_ranges(present: Iterable[Gap], start: int, end: int) -> list[Gap]:
    """Return the gaps between `start` and `end` that the given ranges, in order and without overlap, do not cover."""
    found: list[Gap] = []
    position = start
    for first, after in present:
        if first > position:
            found.append((position, first))
        position = max(position, after)
    return [*found, (position, end)] if position < end else found
