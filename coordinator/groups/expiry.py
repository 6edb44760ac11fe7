"""Routes the timers that are due to the protocols and to the offsets."""

from collections.abc import Sequence

from odradek.coordinator.groups.classic import expiry as classic
from odradek.coordinator.groups.classic.timer_kinds import ClassicTimer
from odradek.coordinator.groups.consumer import expiry as consumer
from odradek.coordinator.groups.decision import Decision
from odradek.coordinator.groups.offsets.delete import delete_offsets_of_topics
from odradek.coordinator.groups.offsets.expiry import DELETED_AT_ONCE, expire_offsets, schedule_retention
from odradek.coordinator.groups.offsets.timer_kinds import OffsetTimer
from odradek.coordinator.groups.table import GroupTable
from odradek.coordinator.timers import Timer


def on_time(table: GroupTable, now_ms: int) -> Sequence[Decision]:
    """Handle all timers that are due, the earliest first; returns a decision for each group, and one for offsets.

    A group with a record that is decided but not replayed yet gets no further decision: its other timers are set again
    for the same time, so that the next call, which is due at once, handles them.
    """
    groups: dict[str, Decision] = {}
    offsets = Decision(now_ms)
    decided: set[str] = set()
    later: list[Timer] = []
    deletes_offsets = False
    while (timer := table.timers.pop_due(now_ms)) is not None:
        if timer.kind is OffsetTimer.RETENTION:
            changed, is_done = expire_offsets(table.offsets, table.each(), offsets, decided)
            decided |= changed
            if is_done:
                schedule_retention(table.offsets, now_ms)
            else:
                later.append(timer)
        elif timer.kind is OffsetTimer.TOPICS_DELETED:
            deletes_offsets = True
        elif timer.group_id in decided:
            later.append(timer)
        else:
            decision = groups.setdefault(timer.group_id, Decision(now_ms, about=timer.group_id))
            _fire(table, timer, decision)
            if decision.records:
                decided.add(timer.group_id)
    if deletes_offsets:
        delete_offsets_of_topics(table.offsets, offsets, DELETED_AT_ONCE)
    for timer in later:
        table.timers.set(timer, now_ms)
    return [*groups.values(), offsets]


def _fire(table: GroupTable, timer: Timer, decision: Decision) -> None:
    if isinstance(timer.kind, ClassicTimer):
        classic.fire(table.classic, timer, decision)
    else:
        consumer.fire(table.consumer, timer, decision)
