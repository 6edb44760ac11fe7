"""The records of consumer groups in `__consumer_offsets`, in the bytes that Kafka 4.3 writes."""

from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from odradek.coordinator.contract import ShardRecord
from odradek.coordinator.groups.consumer.member import ClassicSide, ConsumerMember, Held, Partitions
from odradek.coordinator.groups.consumer.resolved_regex import ResolvedRegex
from odradek.wire.schema.schema import Message
from odradek.wire.stored.framing import encode_key, encode_value
from odradek.wire.stored.group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
    TopicPartitions,
)

_VERSION: Final = 0


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> ShardRecord:
    """Returns the record of the group's epoch, with the hash of the topics for which it was raised."""
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return _record(ConsumerGroupMetadataKey(group_id=group_id), value)


def member_record(group_id: str, member: ConsumerMember) -> ShardRecord:
    """Returns the record of a member's metadata and subscription."""
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(member.topics)),
        subscribed_topic_regex=member.regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=_classic(member.classic),
    )
    return _record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def _classic(side: ClassicSide | None) -> ClassicMemberMetadata | None:
    if side is None:
        return None
    protocols = tuple(ClassicProtocol(name=name, metadata=metadata) for name, metadata in side.protocols)
    return ClassicMemberMetadata(session_timeout_ms=side.session_timeout_ms, supported_protocols=protocols)


def target_record(group_id: str, member_id: str, partitions: Partitions) -> ShardRecord:
    """Returns the record of a member's part of the target assignment."""
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    listed = tuple(
        TopicPartition(topic_id=topic_id, partitions=tuple(sorted(indexes))) for topic_id, indexes in partitions.items()
    )
    return _record(key, ConsumerGroupTargetAssignmentMemberValue(topic_partitions=listed))


def target_epoch_record(group_id: str, epoch: int, now_ms: int) -> ShardRecord:
    """Returns the record of the group epoch for which the target was computed, and the time."""
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=now_ms)
    return _record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def current_record(group_id: str, member: ConsumerMember) -> ShardRecord:
    """Returns the record of a member's current assignment, epoch and state."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_held(member.assigned),
        partitions_pending_revocation=_held(member.revoking),
    )
    return _record(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value)


def _held(held: Held) -> tuple[TopicPartitions, ...]:
    return tuple(_topic(topic_id, partitions) for topic_id, partitions in held.items())


def _topic(topic_id: UUID, partitions: Mapping[int, int]) -> TopicPartitions:
    indexes = tuple(sorted(partitions))
    epochs = tuple(partitions[index] for index in indexes)
    return TopicPartitions(topic_id=topic_id, partitions=indexes, assignment_epochs=epochs)


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex) -> ShardRecord:
    """Returns the record of the topics that a regular expression matches."""
    value = ConsumerGroupRegularExpressionValue(
        topics=tuple(sorted(resolved.topics)), version=resolved.version, timestamp=resolved.timestamp_ms
    )
    return _record(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), value)


def regex_tombstone(group_id: str, regex: str) -> ShardRecord:
    """Returns the record that removes a regular expression."""
    return _tombstone(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex))


def partition_metadata_tombstone(group_id: str) -> ShardRecord:
    """Returns the record that removes the partition metadata of Kafka 4.0, which the hash replaces."""
    return _tombstone(ConsumerGroupPartitionMetadataKey(group_id=group_id))


def member_tombstones(group_id: str, member_id: str) -> tuple[ShardRecord, ShardRecord, ShardRecord]:
    """Returns the records that remove a member: current assignment, target assignment and metadata, in this order."""
    return (
        _tombstone(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)),
        _tombstone(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)),
        _tombstone(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)),
    )


def group_tombstones(group_id: str, member_ids: Iterable[str], regexes: Iterable[str]) -> list[ShardRecord]:
    """Returns the records that remove a group and everything in it, in Kafka's order."""
    members = [member_tombstones(group_id, member_id) for member_id in member_ids]
    return [
        *(current for current, _, _ in members),
        *(target for _, target, _ in members),
        _tombstone(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)),
        *(member for _, _, member in members),
        *(regex_tombstone(group_id, regex) for regex in regexes),
        partition_metadata_tombstone(group_id),
        _tombstone(ConsumerGroupMetadataKey(group_id=group_id)),
    ]


def _record(key: Message, value: Message) -> ShardRecord:
    return ShardRecord(encode_key(key), encode_value(value, _VERSION))


def _tombstone(key: Message) -> ShardRecord:
    return ShardRecord(encode_key(key), None)
