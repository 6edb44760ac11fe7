"""The in-memory state of a log without its batches, and the changes of commits to it. Without access to the database. A
change is computed from a plan, written by the caller, and only then applied: until the write succeeds, readers see the
previous state.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace

from odradek.partitions.model import (
    AbortedTransaction,
    LogSnapshot,
    LogWrite,
    OutboxEntry,
    SegmentInfo,
    StoredBatch,
)
from odradek.storage_backends.interface import LogPolicy
from odradek.storage_backends.planning import (
    NO_TIMESTAMP,
    Run,
    RunStart,
    SegmentFill,
    plan_runs,
    producers_below,
    visible_aborted,
    visible_epochs,
    without_run,
)
from odradek.wire.values import immutable, mutable


@immutable
class SegmentState:
    """A segment: a range of offsets from `base_offset` on, with size and timestamps of its batches."""

    base_offset: int
    size_bytes: int = 0
    first_timestamp_ms: int = NO_TIMESTAMP
    max_timestamp_ms: int = NO_TIMESTAMP

    def with_batch(self, batch: StoredBatch) -> "SegmentState":
        """Return the segment with a batch added."""
        return SegmentState(
            self.base_offset,
            self.size_bytes + len(batch.data),
            self.first_timestamp_ms if self.size_bytes else batch.max_timestamp_ms,
            max(self.max_timestamp_ms, batch.max_timestamp_ms),
        )


@mutable
class Change:
    """The change of a log by a commit. With `restarts` the log is first emptied. Ends and starts are the new ones."""

    segments: list[SegmentState]
    log_start_offset: int
    log_end_offset: int
    clean_offset: int
    restarts: bool = False
    batches: list[StoredBatch] = field(default_factory=list[StoredBatch])
    changed_segments: dict[int, SegmentState] = field(default_factory=dict[int, SegmentState])
    epochs: dict[int, int] = field(default_factory=dict[int, int])
    producers: dict[int, tuple[int, bytes] | None] = field(default_factory=dict[int, tuple[int, bytes] | None])
    aborted: list[AbortedTransaction] = field(default_factory=list[AbortedTransaction])
    dropped_segments: bool = False
    taken: list[OutboxEntry] = field(default_factory=list[OutboxEntry])

    def run(self, run: Run) -> None:
        """Add a run of writes."""
        if run.start is RunStart.RESTART:
            self._restart(run.base_offset)
        elif run.start is RunStart.ROLL:
            self._set_active(SegmentState(run.base_offset), new=True)
        for write in run.writes:
            self._write(write)

    def drop_dead_segments(self) -> None:
        """Remove the segments that are completely below the log start."""
        dead = 0
        while dead + 1 < len(self.segments) and self.segments[dead + 1].base_offset <= self.log_start_offset:
            self.changed_segments.pop(self.segments[dead].base_offset, None)
            dead += 1
        if dead:
            self.dropped_segments = True
            del self.segments[:dead]

    def _restart(self, offset: int) -> None:
        self.restarts = True
        self.segments, self.changed_segments = [], {}
        self.batches, self.epochs, self.producers, self.aborted = [], {}, {}, []
        self.log_start_offset = self.log_end_offset = offset
        self.clean_offset = 0
        self._set_active(SegmentState(offset), new=True)

    def _set_active(self, segment: SegmentState, *, new: bool = False) -> None:
        if new:
            self.segments.append(segment)
        else:
            self.segments[-1] = segment
        self.changed_segments[segment.base_offset] = segment

    def _write(self, write: LogWrite) -> None:
        for batch in write.batches:
            self.batches.append(replace(batch, data=bytes(batch.data)))
            self._set_active(self.segments[-1].with_batch(batch))
            self.log_end_offset = batch.last_offset + 1
        self.epochs.update({each.leader_epoch: each.start_offset for each in write.epochs})
        for producer_id, state in write.producers.items():
            self.producers[producer_id] = None if state is None else (self.log_end_offset, state)
        self.aborted.extend(write.aborted)
        self.taken.extend(write.taken)
        if write.log_start_offset is not None:
            self.log_start_offset = max(self.log_start_offset, write.log_start_offset)
        if write.clean_offset is not None:
            self.clean_offset = write.clean_offset


@mutable
class LogState:
    """A log's state without its batches. Each producer row has the log end after the write that last set it."""

    segments: list[SegmentState] = field(default_factory=lambda: [SegmentState(0)])
    log_start_offset: int = 0
    log_end_offset: int = 0
    clean_offset: int = 0
    epochs: dict[int, int] = field(default_factory=dict[int, int])
    producers: dict[int, tuple[int, bytes]] = field(default_factory=dict[int, tuple[int, bytes]])
    aborted: list[AbortedTransaction] = field(default_factory=list[AbortedTransaction])

    def change(self, writes: Sequence[LogWrite], policy: LogPolicy) -> Change:
        """Return the change of the writes, with the batches' bytes copied. Raises ValueError if they do not continue
        the log.
        """
        active = self.segments[-1]
        fill = SegmentFill(active.size_bytes, active.first_timestamp_ms)
        change = Change(list(self.segments), self.log_start_offset, self.log_end_offset, self.clean_offset)
        for run in plan_runs(writes, self.log_end_offset, fill, policy):
            change.run(run)
        change.drop_dead_segments()
        return change

    def apply(self, change: Change) -> None:
        """Apply a committed change."""
        if change.restarts:
            self.epochs, self.producers, self.aborted = {}, {}, []
        self.segments = change.segments
        self.log_start_offset, self.log_end_offset = change.log_start_offset, change.log_end_offset
        self.clean_offset = change.clean_offset
        self.epochs.update(change.epochs)
        for producer_id, row in change.producers.items():
            if row is None:
                self.producers.pop(producer_id, None)
            else:
                self.producers[producer_id] = row
        self.aborted.extend(change.aborted)
        if change.dropped_segments:
            first = self.segments[0].base_offset
            self.aborted = [each for each in self.aborted if each.last_offset >= first]

    def survivors(self, end_offset: int) -> list[SegmentState]:
        """Return the segments that remain after a truncation to `end_offset`, the last one truncated; none if the log
        is emptied.
        """
        kept = [each for each in self.segments if each.base_offset <= end_offset]
        return kept if end_offset >= self.log_start_offset else []

    def truncated(self, cut: int, segments: list[SegmentState], rebuilt: Mapping[int, bytes]) -> "LogState":
        """Return the state after a truncation at `cut`, with the remaining `segments`."""
        epochs = visible_epochs(self.epochs, self.log_start_offset)
        aborted = visible_aborted(self.aborted, self.log_start_offset)
        return LogState(
            segments,
            min(self.log_start_offset, cut),
            min(self.log_end_offset, cut),
            min(self.clean_offset, cut),
            {each.leader_epoch: each.start_offset for each in epochs if each.start_offset < cut},
            producers_below(self.producers, cut, rebuilt),
            [each for each in aborted if each.last_offset < cut],
        )

    def replaced(self, segment: SegmentState, end_offset: int, aborted: Iterable[AbortedTransaction]) -> None:
        """Replace all segments from the base offset of `segment` up to `end_offset` by it."""
        before = [each for each in self.segments if each.base_offset < segment.base_offset]
        after = [each for each in self.segments if each.base_offset >= end_offset]
        self.segments = [*before, segment, *after]
        self.aborted = without_run(self.aborted, segment.base_offset, end_offset) + list(aborted)

    def snapshot(self) -> LogSnapshot:
        """Return the log's state without batches."""
        return LogSnapshot(
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            max_timestamp_ms=max(each.max_timestamp_ms for each in self.segments),
            epochs=visible_epochs(self.epochs, self.log_start_offset),
            producers={producer_id: state for producer_id, (_, state) in self.producers.items()},
            aborted=visible_aborted(self.aborted, self.log_start_offset),
            clean_offset=self.clean_offset,
        )

    def borders_after(self, offset: int) -> list[int]:
        """Return the end offsets of the segment that contains `offset` and of all later ones."""
        bases = [each.base_offset for each in self.segments]
        return [*bases[bisect_right(bases, offset) :], self.log_end_offset]

    def infos(self) -> tuple[SegmentInfo, ...]:
        """See `PartitionStore.segments`."""
        ends = [*(each.base_offset for each in self.segments[1:]), self.log_end_offset]
        last = self.segments[-1]
        return tuple(
            SegmentInfo(each.base_offset, end, each.size_bytes, each.max_timestamp_ms, sealed=each is not last)
            for each, end in zip(self.segments, ends, strict=True)
        )
