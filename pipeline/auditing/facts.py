"""The facts of one partition, computed from its batches: headers, columns and markers. No I/O."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from odradek.wire.records.batch import NO_PRODUCER_ID, NO_SEQUENCE, BatchHeader, Codec, increment_sequence

MARKER: Final = "transaction marker"
COMPACTED: Final = "compacted"
RETENTION: Final = "retention"
UNEXPLAINED: Final = "unexplained"
DAMAGED: Final = "damaged"
KEPT_EXAMPLES: Final = 5
MAX_SEQUENCE: Final = 2**31 - 1
HALF_OF_SEQUENCES: Final = 2**30
"""Half of the range of sequences. Sequences wrap: of two, one is lower if it is less than this behind the other."""
BUCKETS: Final = 60
"""The maximal number of intervals in which records are counted."""


@dataclass(slots=True)
class CodecFacts:
    """The batches of one compression codec; `plain_bytes` is the size of their decompressed records."""

    batches: int = 0
    size_bytes: int = 0
    plain_bytes: int = 0


@dataclass(slots=True)
class Timeline:
    """Counts of records by time, in intervals that double when there are too many of them."""

    span_ms: int = 1000
    counts: Counter[int] = field(default_factory=Counter[int])

    def add(self, time_ms: int, records: int) -> None:
        """Count records with a timestamp; negative timestamps are ignored."""
        if time_ms < 0:
            return
        self.counts[time_ms // self.span_ms] += records
        while len(self.counts) > 1 and max(self.counts) - min(self.counts) >= BUCKETS:
            self.span_ms *= 2
            halved: Counter[int] = Counter()
            for bucket, count in self.counts.items():
                halved[bucket // 2] += count
            self.counts = halved


@dataclass(slots=True)
class _Producer:
    epoch: int
    next_sequence: int


@dataclass(slots=True)
class PartitionFacts:
    """One partition. `end_offset` is exclusive. `gaps` counts offsets without a record by reason. `problems` counts
    each kind of unexplained finding, with the first examples. `keyed` counts records with a key, `misplaced` those
    of them that Kafka's default partitioner would have put in another partition.
    """

    partition: int
    start_offset: int
    end_offset: int
    is_compacted: bool
    batches: int = 0
    records: int = 0
    committed: int = 0
    aborted: int = 0
    first_time_ms: int = -1
    last_time_ms: int = -1
    time_regressions: int = 0
    keyed: int = 0
    misplaced: int = 0
    largest_batch_bytes: int = 0
    gaps: Counter[str] = field(default_factory=Counter[str])
    codecs: dict[str, CodecFacts] = field(default_factory=dict[str, CodecFacts])
    problems: Counter[str] = field(default_factory=Counter[str])
    examples: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    timeline: Timeline = field(default_factory=Timeline)
    _next_offset: int = -1
    _open: Counter[int] = field(default_factory=Counter[int])
    _producers: dict[int, _Producer] = field(default_factory=dict[int, _Producer])

    def __post_init__(self) -> None:
        self._next_offset = self.start_offset
        if self.start_offset:
            self.gaps[RETENTION] = self.start_offset

    def problem(self, kind: str, count: int, example: str) -> None:
        """Add an unexplained finding."""
        self.problems[kind] += count
        kept = self.examples.setdefault(kind, [])
        if len(kept) < KEPT_EXAMPLES:
            kept.append(example)

    def see(self, header: BatchHeader) -> None:
        """Process the next batch, of data records."""
        self._gap_before(header)
        span = header.next_offset - max(header.base_offset, self.start_offset)
        records = min(header.record_count, span)
        self._missing(span - records, header.base_offset, header.next_offset)
        self.records += records
        self._count(header)
        if header.is_transactional:
            self._open[header.producer_id] += records
        else:
            self.committed += records
        if header.producer_id != NO_PRODUCER_ID and header.base_sequence != NO_SEQUENCE:
            self._check_sequence(header)

    def see_marker(self, header: BatchHeader, *, aborts: bool, of_transaction: bool) -> None:
        """Process a control batch; with `of_transaction` it ends the transaction of its producer."""
        self._gap_before(header)
        self.gaps[MARKER] += header.next_offset - header.base_offset
        self._count(header)
        if of_transaction:
            ended = self._open.pop(header.producer_id, 0)
            if aborts:
                self.aborted += ended
            else:
                self.committed += ended

    def see_damage(self, first: int, end: int, reason: str) -> None:
        """Process offsets that could not be read. The producers' next sequences are unknown afterwards."""
        first = max(first, self._next_offset)
        self._missing(first - self._next_offset, self._next_offset, first)
        self._next_offset = max(self._next_offset, end)
        self.gaps[DAMAGED] += max(0, end - first)
        self._producers.clear()
        self.problem("damaged batch", 1, f"offsets {first} to {end - 1}: {reason}")

    def see_keys(self, keyed: int, misplaced: int) -> None:
        """Add the numbers of a batch's records for `keyed` and `misplaced`."""
        self.keyed += keyed
        self.misplaced += misplaced

    def see_times(self, first_ms: int, last_ms: int, regressions: int) -> None:
        """Add a batch's first and last timestamp, and the number of its records that are older than an earlier one."""
        if first_ms >= 0:
            self.first_time_ms = first_ms if self.first_time_ms < 0 else min(first_ms, self.first_time_ms)
        self.last_time_ms = max(last_ms, self.last_time_ms)
        self.time_regressions += regressions

    def plain_bytes(self, header: BatchHeader, size_bytes: int) -> None:
        """Add the decompressed size of a batch's records."""
        self._codec(header).plain_bytes += size_bytes

    def end(self) -> None:
        """Finish, after all batches. Transactions that are still open are neither committed nor aborted."""
        self._missing(self.end_offset - self._next_offset, self._next_offset, self.end_offset)

    @property
    def open_records(self) -> int:
        """The number of records of open transactions."""
        return sum(self._open.values())

    def _gap_before(self, header: BatchHeader) -> None:
        self._missing(header.base_offset - self._next_offset, self._next_offset, header.base_offset)
        self._next_offset = max(self._next_offset, header.next_offset)

    def _missing(self, count: int, first: int, end: int) -> None:
        if count <= 0:
            return
        if self.is_compacted:
            self.gaps[COMPACTED] += count
        else:
            self.gaps[UNEXPLAINED] += count
            self.problem("offsets missing", count, f"{count} of offsets {first} to {end - 1}")

    def _count(self, header: BatchHeader) -> None:
        self.batches += 1
        self.largest_batch_bytes = max(self.largest_batch_bytes, header.size_bytes)
        codec = self._codec(header)
        codec.batches += 1
        codec.size_bytes += header.size_bytes

    def _codec(self, header: BatchHeader) -> CodecFacts:
        return self.codecs.setdefault(Codec(header.codec).name.lower(), CodecFacts())

    def _check_sequence(self, header: BatchHeader) -> None:
        """Check the sequences of a producer: they start at 0 in each of its epochs, which increase. A repeated sequence
        is a duplicate record. Skipped sequences are lost records, unless compaction may have removed them.
        """
        known = self._producers.get(header.producer_id)
        after = increment_sequence(header.base_sequence, header.last_offset_delta + 1)
        if known is None or known.epoch < header.producer_epoch:
            if known is not None and header.base_sequence:
                self._sequence_gap(header, "a new epoch begins at 0")
            self._producers[header.producer_id] = _Producer(header.producer_epoch, after)
        elif known.epoch > header.producer_epoch:
            self.problem("producer epoch went back", 1, f"{_batch_of(header)}, after epoch {known.epoch}")
        elif 0 < (behind := (known.next_sequence - header.base_sequence) & MAX_SEQUENCE) < HALF_OF_SEQUENCES:
            where = f"{_batch_of(header)}, after {known.next_sequence - 1}"
            self.problem("duplicated sequence", min(behind, header.record_count), where)
        else:
            if behind:
                self._sequence_gap(header, f"{known.next_sequence} was next")
            known.next_sequence = after

    def _sequence_gap(self, header: BatchHeader, expected: str) -> None:
        if not self.is_compacted:
            self.problem("sequence gap", 1, f"{_batch_of(header)}, where {expected}")


def _batch_of(header: BatchHeader) -> str:
    return (
        f"offset {header.base_offset}: producer {header.producer_id} epoch {header.producer_epoch} "
        f"sequence {header.base_sequence}"
    )
