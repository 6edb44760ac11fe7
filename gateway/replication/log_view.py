"""A log's offsets and segments, for retention and compaction."""

from collections.abc import Sequence

from odradek.partitions.model import SegmentInfo
from odradek.partitions.state import PartitionState
from odradek.storage_backends.interface import PartitionStore
from odradek.wire.values import immutable


@immutable
class LogView:
    """A log's offsets and segments, without its records."""

    segments: Sequence[SegmentInfo]
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    log_end_offset: int
    clean_offset: int

    @classmethod
    def of(cls, part: PartitionStore, log: PartitionState) -> "LogView":
        """Combine the state of both. Raises StoreError."""
        return cls(
            part.segments(),
            log.log_start_offset,
            log.high_watermark,
            log.last_stable_offset,
            log.log_end_offset,
            log.clean_offset,
        )
