"""The target assignment: what every member is to have in the end, computed anew when the group epoch has moved on."""

from collections.abc import Mapping
from uuid import UUID

from odradek.coordinator.groups.consumer import records
from odradek.coordinator.groups.consumer.assignors import ASSIGNORS
from odradek.coordinator.groups.consumer.assignors.problem import MemberWish, Problem
from odradek.coordinator.groups.consumer.draft import Draft
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.groups.consumer.member import Partitions
from odradek.coordinator.groups.consumer.metadata import topic_ids
from odradek.coordinator.groups.consumer.table import ConsumerTable
from odradek.coordinator.metadata.image.image import MetadataImage


def update_target(table: ConsumerTable, draft: Draft) -> None:
    """Compute a new target if the last one is for an older epoch, and old enough (KIP-1263)."""
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
    """Whether the target is for an older epoch, and may be computed again."""
    interval_ms = table.assignment_interval_ms(group.group_id)
    never = group.target_timestamp_ms == 0
    may = never or interval_ms == 0 or now_ms >= group.target_timestamp_ms + interval_ms
    return may and group.epoch > group.target_epoch


def _problem(group: ConsumerGroup, image: MetadataImage) -> Problem:
    wishes = tuple(
        MemberWish(
            member_id=member.member_id,
            instance_id=member.instance_id,
            topic_ids=topic_ids(group, member, image),
            current=group.target.get(member.member_id, {}),
        )
        for member in group.members.values()
    )
    return Problem(wishes, _partition_counts(wishes, image))


def _partition_counts(wishes: tuple[MemberWish, ...], image: MetadataImage) -> Mapping[UUID, int]:
    wanted = frozenset[UUID]().union(*(wish.topic_ids for wish in wishes))
    found = {topic_id: image.topic_by_id(topic_id) for topic_id in sorted(wanted)}
    return {topic_id: len(topic.partitions) for topic_id, topic in found.items() if topic is not None}


def target_of(group: ConsumerGroup, member_id: str) -> Partitions:
    """What a member is to have; nothing until a target knows it."""
    return group.target.get(member_id, {})
