"""Which part of a log may be cleaned, whether it is due, and which segments are merged (Kafka's rules)."""

from collections.abc import Sequence
from dataclasses import dataclass

from odradek.partitions.config import LogConfig
from odradek.partitions.model import SegmentInfo


@dataclass(frozen=True, slots=True)
class Cleaning:
    """A part of a log that may be cleaned: the dirty part is `first_dirty_offset` to `end_offset` (exclusive).

    `is_overdue` is True if it has been dirty for longer than `max.compaction.lag.ms`.
    """

    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    cleanable_bytes: int
    min_cleanable_dirty_ratio: float
    is_overdue: bool = False

    @property
    def dirty_ratio(self) -> float:
        """The dirty share of the bytes that a cleaning reads."""
        total_bytes = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total_bytes if total_bytes else 0.0

    @property
    def is_due(self) -> bool:
        """True if the part should be cleaned now."""
        return self.cleanable_bytes > 0 and (self.is_overdue or self.dirty_ratio > self.min_cleanable_dirty_ratio)


def first_dirty_offset(clean_offset: int, log_start_offset: int, log_end_offset: int) -> int:
    """Returns where the uncleaned part begins; a `clean_offset` outside the log is ignored."""
    return clean_offset if log_start_offset <= clean_offset <= log_end_offset else log_start_offset


def plan_cleaning(
    segments: Sequence[SegmentInfo],
    *,
    first_dirty: int,
    last_stable_offset: int,
    config: LogConfig,
    now_ms: int,
    oldest_dirty_ms: int | None = None,
) -> Cleaning:
    """Returns what may be cleaned: sealed segments below the last stable offset, older than `min.compaction.lag.ms`.

    `oldest_dirty_ms` is the timestamp of the dirty part's first batch, needed only if `max.compaction.lag.ms` is set.
    """
    *sealed, active = segments
    dirty = [info for info in sealed if info.end_offset > first_dirty]
    limit = min(last_stable_offset, active.base_offset, _first_too_young(dirty, config, now_ms))
    limit = max(limit, first_dirty)
    end = next((info.base_offset for info in sealed if limit < info.end_offset), active.base_offset)
    return Cleaning(
        first_dirty_offset=first_dirty,
        end_offset=end,
        clean_bytes=sum(info.size_bytes for info in sealed if info.base_offset < first_dirty),
        cleanable_bytes=sum(info.size_bytes for info in dirty if info.base_offset < end),
        min_cleanable_dirty_ratio=config.min_cleanable_dirty_ratio,
        is_overdue=oldest_dirty_ms is not None and 0 < oldest_dirty_ms < now_ms - config.max_compaction_lag_ms,
    )


def _first_too_young(dirty: Sequence[SegmentInfo], config: LogConfig, now_ms: int) -> int:
    newest_allowed_ms = now_ms - config.min_compaction_lag_ms
    young = (info.base_offset for info in dirty if info.max_timestamp_ms > newest_allowed_ms)
    none = dirty[-1].end_offset if dirty else 2**63 - 1
    return next(young, none) if config.min_compaction_lag_ms > 0 else none


def group_segments(
    segments: Sequence[SegmentInfo], end_offset: int, segment_bytes: int
) -> list[tuple[SegmentInfo, ...]]:
    """Group the sealed segments that begin below `end_offset`; each group becomes one segment.

    Groups are formed by the segments' sizes before the cleaning.
    """
    groups: list[list[SegmentInfo]] = []
    size_bytes = 0
    for info in segments:
        if not info.sealed or info.base_offset >= end_offset:
            break
        size_bytes += info.size_bytes
        if not groups or size_bytes > segment_bytes:
            groups.append([])
            size_bytes = info.size_bytes
        groups[-1].append(info)
    return [tuple(group) for group in groups]
