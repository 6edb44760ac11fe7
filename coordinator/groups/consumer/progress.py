"""The consequences of a member's request: the group epoch, the target, and the member's own next step."""

from dataclasses import dataclass

from odradek.coordinator.groups.consumer import records
from odradek.coordinator.groups.consumer.draft import Draft
from odradek.coordinator.groups.consumer.member import ConsumerMember
from odradek.coordinator.groups.consumer.member_state import MemberState
from odradek.coordinator.groups.consumer.metadata import has_new_metadata, raise_epoch, topic_ids
from odradek.coordinator.groups.consumer.reconcile import Owned, Step, reconcile
from odradek.coordinator.groups.consumer.table import ConsumerTable
from odradek.coordinator.groups.consumer.target import target_of, update_target
from odradek.coordinator.groups.consumer.timer_kinds import ConsumerTimer


@dataclass(frozen=True, slots=True)
class SubscriptionChange:
    """`changed`: a member's subscription has changed. `reassign`: this requires a new assignment now."""

    changed: bool
    reassign: bool


def save_member(draft: Draft, before: ConsumerMember, member: ConsumerMember) -> None:
    """Write the member's metadata, if it is new or has changed."""
    if (member is not before and member != before) or member.member_id not in draft.group.members:
        draft.write(records.member_record(draft.group_id, member))


def progress(
    table: ConsumerTable, draft: Draft, member_id: str, owned: Owned, change: SubscriptionChange
) -> ConsumerMember:
    """Raise the group epoch if necessary, update the target, and move the member one step. Returns the member."""
    if change.reassign or has_new_metadata(table, draft.group_id):
        raise_epoch(table, draft, forced=change.reassign)
    update_target(table, draft)
    group = draft.group
    member = group.members[member_id]
    if member.is_at(group.target_epoch) and not change.changed:
        return member  # the case of most heartbeats
    ids = topic_ids(group, member, table.image())
    step = Step(group, ids, owned, target_of(group, member_id), group.target_epoch)
    moved = reconcile(member, step, subscription_changed=change.changed)
    if moved != member:
        draft.write(records.current_record(draft.group_id, moved))
        _watch_revocation(table, draft, moved)
    return moved


def _watch_revocation(table: ConsumerTable, draft: Draft, member: ConsumerMember) -> None:
    """Set or cancel the timer by which a member must release partitions; classic members have JOIN and SYNC instead."""
    if member.state is not MemberState.UNREVOKED_PARTITIONS:
        table.disarm(ConsumerTimer.REBALANCE, draft.group_id, member.member_id)  # loading sets it for classic ones, too
    elif member.classic is None:
        deadline_ms = draft.now_ms + member.rebalance_timeout_ms
        table.arm(ConsumerTimer.REBALANCE, draft.group_id, member.member_id, deadline_ms)
