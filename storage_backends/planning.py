"""The decisions common to all backends: where a commit rolls to a new segment, and the contents of a snapshot.

Pure: backends do the writing. Rolling follows Kafka's LogSegment.shouldRoll, with the time taken only from the records:
a segment is too old for a batch whose max timestamp is more than `segment.ms` after the max timestamp of the segment's
first batch.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from enum import Enum
from itertools import takewhile
from typing import Final

from odradek.partitions.model import AbortedTransaction, EpochStart, LogWrite
from odradek.storage_backends.interface import LogPolicy, SegmentInfo
from odradek.wire.values import mutable

NO_TIMESTAMP = -1


class RunStart(Enum):
    """Whether a run of writes continues the active segment, begins a new one, or begins a new one after emptying the
    log.
    """

    CONTINUE = "continue"
    ROLL = "roll"
    RESTART = "restart"


# A module constant: access to a member of an Enum takes as long as a function call.
_CONTINUE: Final = RunStart.CONTINUE


@mutable
class Run:
    """Writes to one segment in one transaction; `base_offset` is the log end before them, after a restart the offset at
    which the emptied log continues.

    `size_bytes` is that of their batches.
    """

    start: RunStart
    base_offset: int
    writes: list[LogWrite] = field(default_factory=list[LogWrite])
    size_bytes: int = 0


@mutable
class SegmentFill:
    """The fill level of the active segment: bytes of batches, and the first batch's max timestamp (-1: none)."""

    size_bytes: int = 0
    first_timestamp_ms: int = NO_TIMESTAMP

    def must_roll(self, size_bytes: int, max_timestamp_ms: int, policy: LogPolicy) -> bool:
        """True if a write of that size and max timestamp requires a new segment. An empty segment accepts any write."""
        if not self.size_bytes:
            return False
        if self.size_bytes + size_bytes > policy.segment_bytes:
            return True
        if self.first_timestamp_ms < 0 or max_timestamp_ms < 0:
            return False
        return max_timestamp_ms - self.first_timestamp_ms > policy.segment_ms


def plan_runs(writes: Sequence[LogWrite], log_end_offset: int, fill: SegmentFill, policy: LogPolicy) -> list[Run]:
    """Divide writes into runs; raises ValueError if their batches do not continue the log. `fill` is modified. The
    first run continues the active segment and may be empty.

    A write that deletes everything begins a new segment, so that the space of the old one can be freed: if the log
    start moved in the old one, and the roll failed then, no later write would roll.
    """
    run = Run(_CONTINUE, log_end_offset)
    runs = [run]
    for write in writes:
        if write.batches:
            end_offset, size_bytes, max_timestamp_ms = measured(write, log_end_offset)
            if fill.must_roll(size_bytes, max_timestamp_ms, policy):
                run, fill = Run(RunStart.ROLL, log_end_offset), SegmentFill()
                runs.append(run)
            if not fill.size_bytes:
                fill.first_timestamp_ms = write.batches[0].max_timestamp_ms
            fill.size_bytes += size_bytes
            run.size_bytes += size_bytes
            log_end_offset = end_offset
        start_offset = write.log_start_offset
        if start_offset is not None and start_offset > log_end_offset:
            log_end_offset = _restart_offset(write, log_end_offset)
            run, fill = Run(RunStart.RESTART, log_end_offset), SegmentFill()
            runs.append(run)
        elif start_offset == log_end_offset and fill.size_bytes and not write.batches:
            run, fill = Run(RunStart.ROLL, log_end_offset), SegmentFill()
            runs.append(run)
        run.writes.append(write)
    return runs


def measured(write: LogWrite, log_end_offset: int) -> tuple[int, int, int]:
    """Return the log end after the write, the size of its batches in bytes and their largest timestamp. Raises
    ValueError if its batches overlap, or leave a gap in a write that is not replicated.
    """
    size_bytes, max_timestamp_ms = 0, NO_TIMESTAMP
    for batch in write.batches:
        if batch.base_offset != log_end_offset and not (write.replicated and batch.base_offset > log_end_offset):
            raise ValueError(
                f"batch at offset {batch.base_offset} does not continue the log, which ends at {log_end_offset}"
            )
        if batch.last_offset < batch.base_offset:
            raise ValueError(f"batch at offset {batch.base_offset} ends at {batch.last_offset}")
        log_end_offset = batch.last_offset + 1
        size_bytes += len(batch.data)
        if batch.max_timestamp_ms > max_timestamp_ms:  # noqa: PLR1730 - hot
            max_timestamp_ms = batch.max_timestamp_ms
    return log_end_offset, size_bytes, max_timestamp_ms


def _restart_offset(write: LogWrite, log_end_offset: int) -> int:
    assert write.log_start_offset is not None
    if write.batches:
        raise ValueError(
            f"log start {write.log_start_offset} lies above the end {log_end_offset} of the batches written with it"
        )
    return write.log_start_offset


def visible_epochs(starts: Mapping[int, int], log_start_offset: int) -> tuple[EpochStart, ...]:
    """Return the epochs of which the log has offsets, by number. `starts` maps numbers to start offsets."""
    ordered = sorted(starts.items())
    dead = list(takewhile(lambda following: following[1] <= log_start_offset, ordered[1:]))
    return tuple(EpochStart(epoch, start) for epoch, start in ordered[len(dead) :])


def visible_aborted(aborted: Iterable[AbortedTransaction], log_start_offset: int) -> tuple[AbortedTransaction, ...]:
    """Return the aborted transactions that end at or above the log start, by last offset."""
    seen = [each for each in aborted if each.last_offset >= log_start_offset]
    return tuple(sorted(seen, key=lambda each: (each.last_offset, each.producer_id)))


def producers_below(
    rows: Mapping[int, tuple[int, bytes]], cut: int, rebuilt: Mapping[int, bytes]
) -> dict[int, tuple[int, bytes]]:
    """Return the producers' rows, each (log end when set, state), after a truncation at `cut`: see
    `PartitionStore.truncate`.
    """
    kept = {producer_id: row for producer_id, row in rows.items() if row[0] <= cut}
    return {producer_id: (cut, state) for producer_id, state in rebuilt.items()} | kept


def sealed_run(infos: Iterable[SegmentInfo], base_offset: int, end_offset: int) -> tuple[SegmentInfo, ...]:
    """Return the sealed segments in the range."""
    return tuple(
        [info for info in infos if info.sealed and base_offset <= info.base_offset and info.end_offset <= end_offset]
    )


def checked_run(infos: Iterable[SegmentInfo], base_offset: int, end_offset: int) -> tuple[SegmentInfo, ...]:
    """Return the sealed segments of exactly that range. Raises ValueError if its ends are not segment boundaries."""
    run = sealed_run(infos, base_offset, end_offset)
    if not run or run[0].base_offset != base_offset or run[-1].end_offset != end_offset:
        raise ValueError(f"offsets {base_offset} to {end_offset} are no run of sealed segments")
    return run


def without_run(aborted: Iterable[AbortedTransaction], base_offset: int, end_offset: int) -> list[AbortedTransaction]:
    """Return the aborted transactions that do not end in the range."""
    return [each for each in aborted if not base_offset <= each.last_offset < end_offset]
