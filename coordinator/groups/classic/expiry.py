"""The timers of classic groups: sessions, join phases and sync phases."""

from odradek.coordinator.groups.classic.group import ClassicGroup
from odradek.coordinator.groups.classic.rebalance import (
    complete_join,
    extend_initial_delay_or_complete,
    keep_alive,
    prepare_rebalance,
    rebalance_or_complete,
    remove_member,
    remove_pending,
)
from odradek.coordinator.groups.classic.states import GroupState
from odradek.coordinator.groups.classic.table import ClassicTable
from odradek.coordinator.groups.classic.timer_kinds import ClassicTimer
from odradek.coordinator.groups.decision import Decision
from odradek.coordinator.timers import Timer


def start_sessions(table: ClassicTable, decision: Decision) -> None:
    """Called once after loading: restart every session, and rebalance the groups that need it.

    These are groups above a limit that has been lowered, and groups of which no member knows that it leads.
    """
    for group in table.groups.values():
        for member in group.members.values():
            keep_alive(table, member, decision.now_ms)
        if len(group.members) > table.config.group_max_size or _lacks_leader(group):
            prepare_rebalance(table, group, decision)


def _lacks_leader(group: ClassicGroup) -> bool:
    """True for a group that was a consumer group, and has not finished a generation since."""
    return bool(group.members) and group.stored is not None and group.stored.leader is None


def fire(table: ClassicTable, timer: Timer, decision: Decision) -> None:
    """Handle one timer of a classic group that is due."""
    group = table.groups[timer.group_id]
    if timer.kind is ClassicTimer.SESSION:
        _expire_session(table, group, timer.member_id, decision)
    elif timer.kind is ClassicTimer.SYNC:
        _expire_sync(table, group, decision)
    elif group.initial_rebalance:
        extend_initial_delay_or_complete(table, group, decision)
    else:
        complete_join(table, group, decision)


def _expire_session(table: ClassicTable, group: ClassicGroup, member_id: str, decision: Decision) -> None:
    member = group.members.get(member_id)
    if member is None:
        remove_pending(table, group, member_id)
        _complete_join_without(table, group, decision)
        return
    awaits_reply = member_id in group.joining or member_id in group.syncing
    if awaits_reply and not member.is_new:
        # A member cannot heartbeat while its request is held; its session restarts when that is answered.
        return
    remove_member(table, group, member_id, decision)
    if group.state is GroupState.PREPARING_REBALANCE:
        _complete_join_without(table, group, decision)
    else:
        rebalance_or_complete(table, group, decision)


def _complete_join_without(table: ClassicTable, group: ClassicGroup, decision: Decision) -> None:
    if group.state is GroupState.PREPARING_REBALANCE and group.has_all_joined():
        complete_join(table, group, decision)


def _expire_sync(table: ClassicTable, group: ClassicGroup, decision: Decision) -> None:
    """Remove the members that have sent no SyncGroup in this generation, and rebalance."""
    for member_id in list(group.unsynced):
        remove_member(table, group, member_id, decision)
    prepare_rebalance(table, group, decision)
