"""One partition's log in memory: the same segments, rolls and truncations as on disk, as plain Python values.

Not thread-safe: `odradek.storage_backends.memory` holds a lock around it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import chain

from odradek.partitions.model import AbortedTransaction, LogSnapshot, LogWrite, ProducersAt, StoredBatch
from odradek.storage_backends.interface import NO_ROWS, LogPolicy, OffsetNotInStoreError, Rest, SegmentInfo
from odradek.storage_backends.planning import (
    NO_TIMESTAMP,
    Run,
    RunStart,
    SegmentFill,
    plan_runs,
    producers_below,
    sealed_run,
    visible_aborted,
    visible_epochs,
    without_run,
)
from odradek.wire.values import mutable


@mutable
class MemorySegment:
    """Batches in offset order, and their last offsets beside them for bisection.

    `producers` are the rows of the log's producers at the segment's start; None in a compacted segment, and in one that
    began an empty log.
    """

    base_offset: int
    producers: Mapping[int, bytes] | None = None
    batches: list[StoredBatch] = field(default_factory=list[StoredBatch])
    last_offsets: list[int] = field(default_factory=list[int])
    size_bytes: int = 0
    max_timestamp_ms: int = NO_TIMESTAMP

    def fill(self) -> SegmentFill:
        """The segment's fill level."""
        return SegmentFill(self.size_bytes, self.batches[0].max_timestamp_ms if self.batches else NO_TIMESTAMP)

    def append(self, batch: StoredBatch) -> None:
        """Add a batch at the end."""
        self.batches.append(batch)
        self.last_offsets.append(batch.last_offset)
        self.size_bytes += len(batch.data)
        self.max_timestamp_ms = max(self.max_timestamp_ms, batch.max_timestamp_ms)

    def cut(self, end_offset: int) -> int:
        """Drop the batches that end at or above `end_offset`; return the base offset of the first dropped batch, or
        `end_offset`.
        """
        keep = bisect_left(self.last_offsets, end_offset)
        dropped = self.batches[keep:]
        del self.batches[keep:], self.last_offsets[keep:]
        self.size_bytes -= sum(len(batch.data) for batch in dropped)
        self.max_timestamp_ms = max((batch.max_timestamp_ms for batch in self.batches), default=NO_TIMESTAMP)
        return min([end_offset, *(batch.base_offset for batch in dropped[:1])])


@mutable
class MemoryDraft:
    """See `SegmentDraft`."""

    base_offset: int
    end_offset: int
    sources: tuple[SegmentInfo, ...]
    batches: list[StoredBatch] = field(default_factory=list[StoredBatch])
    aborted: tuple[AbortedTransaction, ...] = ()

    def add(self, batches: Sequence[StoredBatch]) -> None:
        """See `SegmentDraft.add`."""
        self.batches += [replace(batch, data=bytes(batch.data)) for batch in batches]

    def seal(self, aborted: Sequence[AbortedTransaction]) -> None:
        """See `SegmentDraft.seal`."""
        self.aborted = tuple(aborted)

    def discard(self) -> None:
        """See `SegmentDraft.discard`."""
        self.batches = []


@mutable
class MemoryLog:
    """The whole log. Each producer row has the log end after the write that last set it."""

    segments: list[MemorySegment] = field(default_factory=lambda: [MemorySegment(0)])
    log_start_offset: int = 0
    log_end_offset: int = 0
    epochs: dict[int, int] = field(default_factory=dict[int, int])
    producers: dict[int, tuple[int, bytes]] = field(default_factory=dict[int, tuple[int, bytes]])
    aborted: list[AbortedTransaction] = field(default_factory=list[AbortedTransaction])
    clean_offset: int = 0

    def plan(self, writes: Sequence[LogWrite], policy: LogPolicy) -> list[Run]:
        """Check the writes against the log; see `plan_runs`."""
        return plan_runs(writes, self.log_end_offset, self.segments[-1].fill(), policy)

    def apply(self, runs: Sequence[Run]) -> None:
        """Apply the runs that `plan` returned."""
        for run in runs:
            self._start(run)
            for write in run.writes:
                self._write(write)
        self._drop_dead_segments()

    def _start(self, run: Run) -> None:
        if run.start is RunStart.RESTART:
            self._restart(run.base_offset)
        elif run.start is RunStart.ROLL:
            self.segments.append(MemorySegment(run.base_offset, self._producers()))

    def _restart(self, offset: int) -> None:
        self.segments = [MemorySegment(offset)]
        self.log_start_offset = self.log_end_offset = offset
        self.epochs, self.producers, self.aborted, self.clean_offset = {}, {}, [], 0

    def _write(self, write: LogWrite) -> None:
        for batch in write.batches:
            self.segments[-1].append(batch)
            self.log_end_offset = batch.last_offset + 1
        self.epochs.update({each.leader_epoch: each.start_offset for each in write.epochs})
        for producer_id, state in write.producers.items():
            if state is None:
                self.producers.pop(producer_id, None)
            else:
                self.producers[producer_id] = (self.log_end_offset, state)
        self.aborted.extend(write.aborted)
        if write.log_start_offset is not None:
            self.log_start_offset = max(self.log_start_offset, write.log_start_offset)
        if write.clean_offset is not None:
            self.clean_offset = write.clean_offset

    def _drop_dead_segments(self) -> None:
        while len(self.segments) > 1 and self.segments[1].base_offset <= self.log_start_offset:
            del self.segments[0]

    def _producers(self) -> Mapping[int, bytes]:
        return {producer_id: state for producer_id, (_, state) in self.producers.items()}

    def producers_before(self, end_offset: int) -> ProducersAt:
        """See `PartitionStore.producers_before`."""
        for segment in reversed(self.segments):
            if self.log_start_offset <= segment.base_offset <= end_offset and segment.producers is not None:
                return ProducersAt(segment.base_offset, segment.producers)
        return ProducersAt(self.log_start_offset, NO_ROWS)

    def truncate(self, end_offset: int, rebuilt: Mapping[int, bytes]) -> None:
        """See `PartitionStore.truncate`."""
        epochs = visible_epochs(self.epochs, self.log_start_offset)
        aborted = visible_aborted(self.aborted, self.log_start_offset)
        kept = [each for each in self.segments if each.base_offset <= end_offset]
        self.segments = kept if kept and end_offset >= self.log_start_offset else [MemorySegment(end_offset)]
        cut = self.segments[-1].cut(end_offset)
        self.log_end_offset = min(self.log_end_offset, cut)
        self.log_start_offset = min(self.log_start_offset, cut)
        self.epochs = {each.leader_epoch: each.start_offset for each in epochs if each.start_offset < cut}
        self.producers = producers_below(self.producers, cut, rebuilt)
        self.aborted = [each for each in aborted if each.last_offset < cut]
        self.clean_offset = min(self.clean_offset, cut)

    def replace(self, draft: MemoryDraft) -> bool:
        """See `PartitionStore.replace`."""
        run = sealed_run(self.segment_infos(), draft.base_offset, draft.end_offset)
        if run != draft.sources:
            return False
        segment = MemorySegment(draft.base_offset)
        for batch in draft.batches:
            segment.append(batch)
        first = [each.base_offset for each in self.segments].index(draft.base_offset)
        self.segments[first : first + len(run)] = [segment]
        self.aborted = without_run(self.aborted, draft.base_offset, draft.end_offset) + list(draft.aborted)
        return True

    def snapshot(self) -> LogSnapshot:
        """Return the log's state without batches."""
        return LogSnapshot(
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            max_timestamp_ms=max(segment.max_timestamp_ms for segment in self.segments),
            epochs=visible_epochs(self.epochs, self.log_start_offset),
            producers=self._producers(),
            aborted=visible_aborted(self.aborted, self.log_start_offset),
            clean_offset=self.clean_offset,
        )

    def read(self, start_offset: int, end_offset: int, max_bytes: int) -> tuple[list[memoryview], Rest]:
        """Return the batches that `PartitionStore.read` lends, and what it leaves."""
        self._check_offset(start_offset)
        chunks: list[memoryview] = []
        rest = Rest.NOTHING
        if start_offset >= end_offset:
            return chunks, rest
        for batch in self._batches_from(start_offset):
            if batch.last_offset >= end_offset:
                break
            if chunks and len(batch.data) > max_bytes:
                rest = Rest.CUT
                break
            chunks.append(memoryview(batch.data))
            max_bytes -= len(batch.data)
        return chunks, Rest.NEWER_SEGMENT if chunks and self._rolls_within(start_offset, end_offset) else rest

    def _rolls_within(self, start_offset: int, end_offset: int) -> bool:
        """True if a segment begins above `start_offset` and at or below `end_offset`."""
        bases = [segment.base_offset for segment in self.segments]
        return bisect_right(bases, start_offset) < bisect_right(bases, end_offset)

    def _check_offset(self, offset: int) -> None:
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetNotInStoreError(
                f"offset {offset} is not within {self.log_start_offset} to {self.log_end_offset}"
            )

    def _batches_from(self, offset: int) -> Iterator[StoredBatch]:
        bases = [segment.base_offset for segment in self.segments]
        first = max(bisect_right(bases, offset) - 1, 0)
        segment = self.segments[first]
        position = bisect_left(segment.last_offsets, offset)
        rest = (later.batches for later in self.segments[first + 1 :])
        return chain(segment.batches[position:], chain.from_iterable(rest))

    def find_by_timestamp(self, timestamp_ms: int) -> int | None:
        """See `PartitionStore.find_by_timestamp`."""
        batches = self._batches_from(self.log_start_offset)
        return next((batch.base_offset for batch in batches if batch.max_timestamp_ms >= timestamp_ms), None)

    def find_max_timestamp(self) -> int | None:
        """See `PartitionStore.find_max_timestamp`."""
        batches = self._batches_from(self.log_start_offset)
        largest = max(batches, key=lambda batch: batch.max_timestamp_ms, default=None)
        return largest.base_offset if largest else None

    def segment_infos(self) -> tuple[SegmentInfo, ...]:
        """See `PartitionStore.segments`."""
        ends = [*(segment.base_offset for segment in self.segments[1:]), self.log_end_offset]
        last = self.segments[-1]
        return tuple(
            SegmentInfo(each.base_offset, end, each.size_bytes, each.max_timestamp_ms, sealed=each is not last)
            for each, end in zip(self.segments, ends, strict=True)
        )

    def copy(self) -> "MemoryLog":
        """Return a log that can be changed without changing this one; the batches are shared."""
        return replace(
            self,
            segments=[
                replace(each, batches=list(each.batches), last_offsets=list(each.last_offsets))
                for each in self.segments
            ],
            epochs=dict(self.epochs),
            producers=dict(self.producers),
            aborted=list(self.aborted),
        )


def own_batches(write: LogWrite) -> LogWrite:
    """Return the write with its batches' bytes copied, so that the caller may reuse its buffers."""
    batches = [replace(batch, data=bytes(batch.data)) for batch in write.batches]
    return replace(write, batches=batches, producers=dict(write.producers))
