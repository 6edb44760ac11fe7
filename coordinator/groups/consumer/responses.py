"""Pieces of replies that several operations give."""

from odradek.coordinator.groups.consumer.member import ConsumerMember
from odradek.wire.messages.consumer_group_heartbeat import Assignment, TopicPartitions


def assignment_of(member: ConsumerMember) -> Assignment:
    """All that a member has, as a heartbeat's answer says it."""
    return Assignment(
        topic_partitions=tuple(
            TopicPartitions(topic_id=topic_id, partitions=tuple(sorted(partitions)))
            for topic_id, partitions in member.assigned.items()
        )
    )
