"""Bugs of consumer groups, compaction and retention to plant; see `sim_mutants`."""

from types import SimpleNamespace
from typing import Any

import pytest

from odradek.coordinator.groups.consumer import progress, reconcile
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.gateway.maintenance import retention
from odradek.gateway.testing.simulation.loads.oracle import Invariant
from odradek.partitions.compaction.cleaner import BatchFilter
from odradek.partitions.compaction.offset_map import OffsetMap
from odradek.partitions.model import LogWrite
from odradek.partitions.state import PartitionState
from odradek.storage_backends.memory import MemoryPartition
from odradek.wire.errors import ErrorCode


def partitions_given_while_held(patch: pytest.MonkeyPatch) -> None:
    """Members get the partitions of their target even while others still hold them."""
    patch.setattr(progress, "Step", lambda _group, *rest: reconcile.Step(SimpleNamespace(owners={}), *rest))


def expelled_members_may_commit(patch: pytest.MonkeyPatch) -> None:
    """Offset commits of removed members, or in a past epoch, are accepted."""
    patch.setattr(ConsumerGroup, "check_offset_commit", lambda *_: ErrorCode.NONE)


def newest_records_removed(patch: pytest.MonkeyPatch) -> None:
    """Compaction treats the newest record of a key as an older one."""
    get = OffsetMap.get
    patch.setattr(OffsetMap, "get", lambda self, key: get(self, key) + 1)


def tombstones_removed_early(patch: pytest.MonkeyPatch) -> None:
    """Compaction removes tombstones without waiting for delete.retention.ms."""
    init = BatchFilter.__init__

    def ignoring_retention(self: BatchFilter, *rest: Any, delete_retention_ms: int, **more: Any) -> None:
        init(self, *rest, delete_retention_ms=min(delete_retention_ms, 0), **more)

    patch.setattr(BatchFilter, "__init__", ignoring_retention)


def retention_removes_all(patch: pytest.MonkeyPatch) -> None:
    """Retention removes everything up to the high watermark whenever it may remove a segment."""
    retention_start = retention.retention_start

    def greedy(segments: Any, *, high_watermark: int, **more: Any) -> int | None:
        start = retention_start(segments, high_watermark=high_watermark, **more)
        return None if start is None else high_watermark

    patch.setattr(retention, "retention_start", greedy)


def deletions_not_stored(patch: pytest.MonkeyPatch) -> None:
    """A new log start offset is in memory only, and not stored."""
    move_log_start = PartitionState.move_log_start

    def forgetful(self: PartitionState, offset: int) -> Any:
        write = move_log_start(self, offset)
        return LogWrite() if isinstance(write, LogWrite) else write

    patch.setattr(PartitionState, "move_log_start", forgetful)


def reads_begin_late(patch: pytest.MonkeyPatch) -> None:
    """A read skips the batch with which it should begin."""
    read = MemoryPartition.read

    def late(self: MemoryPartition, start_offset: int, end_offset: int, max_bytes: int) -> Any:
        return read(self, min(start_offset + 4, end_offset), end_offset, max_bytes)

    patch.setattr(MemoryPartition, "read", late)


GROUP_MUTANTS = (
    (partitions_given_while_held, Invariant.ONE_HOLDER),
    (expelled_members_may_commit, Invariant.FENCED_COMMITS_REFUSED),
)
COMPACTION_MUTANTS = (
    (newest_records_removed, Invariant.NEWEST_KEPT),
    (tombstones_removed_early, Invariant.TOMBSTONES_KEPT),
)
RETENTION_MUTANTS = (
    (retention_removes_all, Invariant.RETENTION_LIMITED),
    (deletions_not_stored, Invariant.DELETED_STAYS),
    (reads_begin_late, Invariant.KEPT_ABOVE_START),
)
