"""Retention of committed offsets, and of groups without offsets (KIP-211)."""

from collections.abc import Container, Iterable

from odradek.coordinator.groups.decision import Decision
from odradek.coordinator.groups.group import Group, UnusedSince
from odradek.coordinator.groups.offsets.records import offset_tombstone
from odradek.coordinator.groups.offsets.table import OffsetTable
from odradek.wire.stored.group_records import OffsetCommitValue

DELETED_AT_ONCE = 500
"""How many offsets are deleted in one operation for which no client waits: a few milliseconds' work."""


def schedule_retention(table: OffsetTable, now_ms: int) -> None:
    """Search for expired offsets again after the check interval."""
    table.timers.set(table.retention_timer, now_ms + table.config.offsets_retention_check_interval_ms)


def expire_offsets(
    table: OffsetTable, groups: Iterable[Group], decision: Decision, skipped: Container[str]
) -> tuple[set[str], bool]:
    """Delete offsets past their retention, and empty groups without offsets, except the groups in `skipped`.

    Returns the ids of the groups that have records in the decision, and whether that is all: when a decision has
    DELETED_AT_ONCE records, the rest is left for the next call.
    """
    changed: set[str] = set()
    for group in groups:
        before = len(decision.records)
        if before >= DELETED_AT_ONCE:
            return changed, False
        if group.group_id not in skipped:
            _expire_offsets_of(table, group, decision)
        if len(decision.records) > before:
            changed.add(group.group_id)
    return changed, len(decision.records) < DELETED_AT_ONCE


def _expire_offsets_of(table: OffsetTable, group: Group, decision: Decision) -> None:
    retention_ms = table.config.offsets_retention_ms
    # An open transaction may still commit: its group is kept, and so are the offsets that it would change.
    all_expired = not table.store.pending_partitions(group.group_id)
    for topic, partitions in table.store.topics(group.group_id).items():
        since = group.unused_since(topic)
        for partition, value in partitions.items():
            pending = table.store.is_pending(group.group_id, topic, partition)
            has_room = len(decision.records) < DELETED_AT_ONCE
            if has_room and not pending and _is_expired(value, since, retention_ms, decision.now_ms):
                decision.record(offset_tombstone(group.group_id, topic, partition))
            else:
                all_expired = False
    if all_expired and group.may_expire():
        decision.write(group.tombstones())


def _is_expired(value: OffsetCommitValue, since: UnusedSince | None, retention_ms: int, now_ms: int) -> bool:
    if since is None:
        return False
    if value.expire_timestamp >= 0:  # the client sent its own retention, as OffsetCommit 2 to 4 allow
        return now_ms >= value.expire_timestamp
    return now_ms - since(value) >= retention_ms
