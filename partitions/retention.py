"""Retention: the offset from which a log is kept, by `retention.bytes` and `retention.ms`.

Whole segments are deleted, oldest first, as in Kafka: first those beyond the size limit, then, of the remaining ones,
those whose newest record is too old. Each of the two steps ends at the first segment to keep. The active segment may be
deleted as well (an empty one replaces it), but nothing at or above the high watermark. A segment without timestamps
never expires.
"""

from collections.abc import Callable, Sequence

from odradek.partitions.config import LogConfig
from odradek.partitions.model import SegmentInfo


def retention_start(
    segments: Sequence[SegmentInfo], *, high_watermark: int, config: LogConfig, now_ms: int
) -> int | None:
    """Returns the offset from which the log is kept; None when nothing should be deleted."""
    if not config.is_deleted:
        return None
    rest = segments[_count_oversized(segments, high_watermark, config.retention_bytes) :]
    rest = rest[_count_expired(rest, high_watermark, config.retention_ms, now_ms) :]
    gone = len(segments) - len(rest)
    return segments[gone - 1].end_offset if gone else None


def _count_oversized(segments: Sequence[SegmentInfo], high_watermark: int, retention_bytes: int) -> int:
    if retention_bytes < 0:
        return 0
    excess_bytes = sum(info.size_bytes for info in segments) - retention_bytes

    def is_in_excess(info: SegmentInfo) -> bool:
        nonlocal excess_bytes
        excess_bytes -= info.size_bytes
        return excess_bytes >= 0

    return _count_deletable(segments, high_watermark, is_in_excess) if excess_bytes > 0 else 0


def _count_expired(segments: Sequence[SegmentInfo], high_watermark: int, retention_ms: int, now_ms: int) -> int:
    if retention_ms < 0:
        return 0

    def is_expired(info: SegmentInfo) -> bool:
        # A segment that compaction has emptied contains nothing to keep.
        return not info.size_bytes or 0 <= info.max_timestamp_ms < now_ms - retention_ms

    return _count_deletable(segments, high_watermark, is_expired)


def _count_deletable(
    segments: Sequence[SegmentInfo], high_watermark: int, is_due: Callable[[SegmentInfo], bool]
) -> int:
    """Returns the number of segments, from the first, that are due and may be deleted."""
    for count, info in enumerate(segments):
        is_empty_active = not info.sealed and not info.size_bytes
        if is_empty_active or info.end_offset > high_watermark or not is_due(info):
            return count
    return len(segments)
