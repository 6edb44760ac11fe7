"""Parts of responses that several operations use."""

from odradek.coordinator.groups.consumer.member import ConsumerMember
from odradek.wire.messages.consumer_group_heartbeat import Assignment, TopicPartitions


def assignment_of(member: ConsumerMember) -> Assignment:
    """Returns the partitions assigned to a member, in the form of a heartbeat's response."""
    return Assignment(
        topic_partitions=tuple(
            TopicPartitions(topic_id=topic_id, partitions=tuple(sorted(partitions)))
            for topic_id, partitions in member.assigned.items()
        )
    )
