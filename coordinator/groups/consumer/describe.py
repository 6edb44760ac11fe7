"""ConsumerGroupDescribe, versions 0 and 1 (from 1 on with the type of each member)."""

from collections.abc import Iterable, Iterator
from uuid import UUID

from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.groups.consumer.member import ConsumerMember
from odradek.coordinator.groups.consumer.table import ConsumerTable
from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.wire.messages.consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


def describe_consumer_group(table: ConsumerTable, group_id: str) -> DescribedGroup:
    """Returns the description of a consumer group; GROUP_ID_NOT_FOUND also for a group of another protocol."""
    group = table.groups.get(group_id)
    if group is None:
        refused = table.conversion.not_found(group_id)
        return DescribedGroup(group_id=group_id, error_code=refused.code, error_message=refused.message)
    image = table.image()
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.preferred_assignor(table.config.group_consumer_assignors[0]),
        members=tuple(_member(group, member, image) for member in group.members.values()),
    )


def _member(group: ConsumerGroup, member: ConsumerMember, image: MetadataImage) -> Member:
    held = [*member.assigned.items(), *member.revoking.items()]
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(member.topics)),
        subscribed_topic_regex=member.regex,
        assignment=Assignment(topic_partitions=tuple(_named(held, image))),
        target_assignment=Assignment(
            topic_partitions=tuple(_named(group.target.get(member.member_id, {}).items(), image))
        ),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _named(held: Iterable[tuple[UUID, Iterable[int]]], image: MetadataImage) -> Iterator[TopicPartitions]:
    """Yield the partitions by topic, without topics that have been deleted."""
    merged: dict[UUID, set[int]] = {}
    for topic_id, partitions in held:
        merged.setdefault(topic_id, set()).update(partitions)
    for topic_id, indexes in merged.items():
        topic = image.topic_by_id(topic_id)
        if topic is not None:
            yield TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=tuple(sorted(indexes)))
