"""What happens when a timer fires."""

from collections.abc import Container

from odradek.coordinator.groups import records
from odradek.coordinator.groups.classic.group import ClassicGroup
from odradek.coordinator.groups.classic.rebalance import (
    complete_join,
    extend_initial_delay_or_complete,
    prepare_rebalance,
    rebalance_or_complete,
    remove_member,
    remove_pending,
)
from odradek.coordinator.groups.classic.states import GroupState
from odradek.coordinator.groups.consumer import departure
from odradek.coordinator.groups.consumer import records as consumer_records
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.groups.consumer.table import CONSUMER_KINDS
from odradek.coordinator.groups.decision import Decision
from odradek.coordinator.groups.offsets.delete import delete_offsets_of_topics
from odradek.coordinator.groups.table import GroupTable
from odradek.coordinator.timers import Timer, TimerKind
from odradek.wire.stored.group_records import OffsetCommitValue

AT_ONCE = 500
"""How many offsets are deleted in one operation where no client waits: some milliseconds' work."""


def on_time(table: GroupTable, decision: Decision) -> None:
    """Handle all timers that are due.

    A group whose record is decided but not replayed yet is left alone: its further timers come up in the next call,
    which is due at once.
    """
    decided: set[str] = set()
    later: list[Timer] = []
    deletes_offsets = False
    while (timer := table.timers.pop_due(decision.now_ms)) is not None:
        if timer.kind is TimerKind.RETENTION:
            changed, is_done = expire_offsets(table, decision, decided)
            decided |= changed
            if is_done:
                schedule_retention(table, decision.now_ms)
            else:
                later.append(timer)
        elif timer.kind is TimerKind.TOPICS_DELETED:
            deletes_offsets = True
        elif timer.group_id in decided:
            later.append(timer)
        else:
            before = len(decision.records)
            _fire(table, timer, decision)
            if len(decision.records) > before:
                decided.add(timer.group_id)
    if deletes_offsets:
        delete_offsets_of_topics(table, decision, AT_ONCE)
    for timer in later:
        table.timers.set(timer, decision.now_ms)


def _fire(table: GroupTable, timer: Timer, decision: Decision) -> None:
    if timer.kind in CONSUMER_KINDS:
        departure.fire(table, timer, decision)
        return
    group = table.groups[timer.group_id]
    if timer.kind is TimerKind.SESSION:
        _expire_session(table, group, timer.member_id, decision)
    elif timer.kind is TimerKind.SYNC:
        _expire_sync(table, group, decision)
    elif group.initial_rebalance:
        extend_initial_delay_or_complete(table, group, decision)
    else:
        complete_join(table, group, decision)


def _expire_session(table: GroupTable, group: ClassicGroup, member_id: str, decision: Decision) -> None:
    member = group.members.get(member_id)
    if member is None:
        remove_pending(table, group, member_id)
        _complete_join_without(table, group, decision)
        return
    awaits_reply = member_id in group.joining or member_id in group.syncing
    if awaits_reply and not member.is_new:
        return  # it cannot heartbeat while it waits; its session starts anew when it is answered
    remove_member(table, group, member_id, decision)
    if group.state is GroupState.PREPARING_REBALANCE:
        _complete_join_without(table, group, decision)
    else:
        rebalance_or_complete(table, group, decision)


def _complete_join_without(table: GroupTable, group: ClassicGroup, decision: Decision) -> None:
    if group.state is GroupState.PREPARING_REBALANCE and group.has_all_joined():
        complete_join(table, group, decision)


def _expire_sync(table: GroupTable, group: ClassicGroup, decision: Decision) -> None:
    """Members that were told the generation but never asked for their assignment are gone."""
    for member_id in list(group.unsynced):
        remove_member(table, group, member_id, decision)
    prepare_rebalance(table, group, decision)


# Retention


def schedule_retention(table: GroupTable, now_ms: int) -> None:
    """Look for expired offsets again after the check interval."""
    table.timers.set(table.retention_timer, now_ms + table.config.offsets_retention_check_interval_ms)


def expire_offsets(table: GroupTable, decision: Decision, skipped: Container[str]) -> tuple[set[str], bool]:
    """Delete offsets past their retention, and empty groups without offsets (KIP-211).

    Returns the groups changed, and whether that was all: AT_ONCE records and more are left for another time.
    """
    changed: set[str] = set()
    for group in (*table.groups.values(), *table.consumer.groups.values()):
        before = len(decision.records)
        if before >= AT_ONCE:
            return changed, False
        if group.group_id not in skipped and isinstance(group, ClassicGroup):
            _expire_offsets_of(table, group, decision)
        elif group.group_id not in skipped and isinstance(group, ConsumerGroup):
            _expire_consumer_offsets_of(table, group, decision)
        if len(decision.records) > before:
            changed.add(group.group_id)
    return changed, len(decision.records) < AT_ONCE


def _expire_offsets_of(table: GroupTable, group: ClassicGroup, decision: Decision) -> None:
    # An open transaction may yet commit: its group stays, and so do the offsets that it would change.
    all_expired = not table.offsets.pending_places(group.group_id)
    for topic, partitions in table.offsets.topics(group.group_id).items():
        for partition, value in partitions.items():
            pending = table.offsets.is_pending(group.group_id, topic, partition)
            if _has_room(decision) and not pending and _is_expired(table, group, topic, value, decision.now_ms):
                decision.record(records.offset_tombstone(group.group_id, topic, partition))
            else:
                all_expired = False
    if all_expired and group.state is GroupState.EMPTY and not group.pending:
        decision.record(records.group_tombstone(group.group_id))


def _expire_consumer_offsets_of(table: GroupTable, group: ConsumerGroup, decision: Decision) -> None:
    """Of topics that no member subscribes to; their retention counts from the commit."""
    all_expired = not table.offsets.pending_places(group.group_id)
    for topic, partitions in table.offsets.topics(group.group_id).items():
        subscribed = group.is_subscribed_to(topic)
        for partition, value in partitions.items():
            held = subscribed or table.offsets.is_pending(group.group_id, topic, partition)
            outlived = _has_room(decision) and _has_outlived(table, value, value.commit_timestamp, decision.now_ms)
            if outlived and not held:
                decision.record(records.offset_tombstone(group.group_id, topic, partition))
            else:
                all_expired = False
    if all_expired and not group.members:
        for record in consumer_records.group_tombstones(group):
            decision.record(record)


def _has_room(decision: Decision) -> bool:
    return len(decision.records) < AT_ONCE


def _is_expired(table: GroupTable, group: ClassicGroup, topic: str, value: OffsetCommitValue, now_ms: int) -> bool:
    since_ms = _unused_since_ms(group, topic, value)
    return since_ms is not None and _has_outlived(table, value, since_ms, now_ms)


def _has_outlived(table: GroupTable, value: OffsetCommitValue, since_ms: int, now_ms: int) -> bool:
    if value.expire_timestamp >= 0:
        return now_ms >= value.expire_timestamp
    return now_ms - since_ms >= table.config.offsets_retention_ms


def _unused_since_ms(group: ClassicGroup, topic: str, value: OffsetCommitValue) -> int | None:
    """From when an offset's retention counts; None while it is in use.

    A simple consumer's: from its commit. An empty group's: from when it became empty. In a stable consumer group, of
    topics that nobody reads any more: from the commit.
    """
    if group.protocol_type is None:
        return value.commit_timestamp
    if group.state is GroupState.EMPTY:
        return group.state_since_ms
    aware = group.is_consumer_group() and group.subscribed_topics is not None
    if group.state is GroupState.STABLE and aware and not group.is_subscribed_to(topic):
        return value.commit_timestamp
    return None
