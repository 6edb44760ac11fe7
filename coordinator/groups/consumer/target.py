"""The target assignment: the partitions that each member should have, computed when the group epoch has grown."""

from collections.abc import Mapping
from uuid import UUID

from odradek.coordinator.groups.consumer import records
from odradek.coordinator.groups.consumer.assignors import ASSIGNORS
from odradek.coordinator.groups.consumer.assignors.problem import MemberSubscription, Problem
from odradek.coordinator.groups.consumer.draft import Draft
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.groups.consumer.member import Partitions
from odradek.coordinator.groups.consumer.metadata import topic_ids
from odradek.coordinator.groups.consumer.table import ConsumerTable
from odradek.coordinator.metadata.image.image import MetadataImage


def update_target(table: ConsumerTable, draft: Draft) -> None:
    """Compute a new target if the last one is for an older epoch and its interval has passed (KIP-1263)."""
    group = draft.group
    if not target_is_due(table, group, draft.now_ms):
        return
    assignor = group.preferred_assignor(table.config.group_consumer_assignors[0])
    target = ASSIGNORS[assignor](_problem(group, table.image()))
    changed = [
        records.target_record(group.group_id, member_id, target.get(member_id, {}))
        for member_id in group.members
        if target.get(member_id, {}) != group.target.get(member_id)
    ]
    draft.write(*changed, records.target_epoch_record(group.group_id, group.epoch, draft.now_ms))


def target_is_due(table: ConsumerTable, group: ConsumerGroup, now_ms: int) -> bool:
    """True if the target is for an older epoch, and its interval has passed.

    A target of the future does not count: it was stored before a clock was set back, or by a broker whose clock is
    ahead, and would prevent new ones until then.
    """
    age_ms = now_ms - group.target_timestamp_ms
    may = group.target_timestamp_ms == 0 or not 0 <= age_ms < table.assignment_interval_ms(group.group_id)
    return may and group.epoch > group.target_epoch


def _problem(group: ConsumerGroup, image: MetadataImage) -> Problem:
    members = tuple(
        MemberSubscription(
            member_id=member.member_id,
            instance_id=member.instance_id,
            topic_ids=topic_ids(group, member, image),
            current=group.target.get(member.member_id, {}),
        )
        for member in group.members.values()
    )
    return Problem(members, _partition_counts(members, image))


def _partition_counts(members: tuple[MemberSubscription, ...], image: MetadataImage) -> Mapping[UUID, int]:
    wanted = frozenset[UUID]().union(*(member.topic_ids for member in members))
    found = {topic_id: image.topic_by_id(topic_id) for topic_id in sorted(wanted)}
    return {topic_id: len(topic.partitions) for topic_id, topic in found.items() if topic is not None}


def target_of(group: ConsumerGroup, member_id: str) -> Partitions:
    """Returns a member's part of the target; empty until a target includes the member."""
    return group.target.get(member_id, {})
