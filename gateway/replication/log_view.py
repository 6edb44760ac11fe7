"""What retention and compaction see of a log."""

from collections.abc import Sequence

from odradek.partitions.model import SegmentInfo
from odradek.partitions.state import PartitionState
from odradek.storage_backends.interface import PartitionStore
from odradek.wire.values import immutable


@immutable
class LogView:
    """A log without its records, as those see it who delete and compact."""

    segments: Sequence[SegmentInfo]
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    log_end_offset: int
    clean_offset: int

    @classmethod
    def of(cls, part: PartitionStore, log: PartitionState) -> "LogView":
        """Put together what both know. Raises StoreError."""
        return cls(
            part.segments(),
            log.log_start_offset,
            log.high_watermark,
            log.last_stable_offset,
            log.log_end_offset,
            log.clean_offset,
        )
