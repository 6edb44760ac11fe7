"""Applies the records of consumer groups: to the groups of the shard, or to the draft of an operation."""

from dataclasses import replace
from typing import Final
from uuid import UUID

from odradek.coordinator.contract import ShardRecord
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.groups.consumer.member import ClassicSide, ConsumerMember
from odradek.coordinator.groups.consumer.member_state import LEAVE_EPOCH, MemberState
from odradek.coordinator.groups.consumer.resolved_regex import ResolvedRegex
from odradek.coordinator.groups.consumer.table import ConsumerTable
from odradek.wire.schema.schema import Message
from odradek.wire.stored.framing import decode_key, decode_value
from odradek.wire.stored.group_records import (
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
    TopicPartitions,
)

ConsumerKey = (
    ConsumerGroupMetadataKey
    | ConsumerGroupPartitionMetadataKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupRegularExpressionKey
)

_KEYS: Final[dict[int, type[Message]]] = {
    3: ConsumerGroupMetadataKey,
    4: ConsumerGroupPartitionMetadataKey,
    5: ConsumerGroupMemberMetadataKey,
    6: ConsumerGroupTargetAssignmentMetadataKey,
    7: ConsumerGroupTargetAssignmentMemberKey,
    8: ConsumerGroupCurrentMemberAssignmentKey,
    16: ConsumerGroupRegularExpressionKey,
}


def decode_consumer_key(data: bytes) -> ConsumerKey | None:
    """Decode a record's key; None for a record of another kind. Raises DecodeError if the rest is invalid."""
    if int.from_bytes(data[:2], "big") not in _KEYS:
        return None
    key = decode_key(data, _KEYS)
    assert isinstance(key, ConsumerKey)
    return key


def replay_consumer(table: ConsumerTable, key: ConsumerKey, value: bytes | None, now_ms: int) -> None:
    """Apply a record: the first record with a value creates the group, the tombstone of its epoch removes it."""
    group = table.groups.get(key.group_id)
    if isinstance(key, ConsumerGroupMetadataKey) and value is None:
        table.forget(key.group_id)
        return
    if group is None and value is not None:
        group = table.groups[key.group_id] = ConsumerGroup(key.group_id)
        group.empty_since_ms = now_ms
    if group is not None:
        had_members = bool(group.members)
        apply_to(group, key, value)
        if had_members and not group.members:
            group.empty_since_ms = now_ms


def apply(group: ConsumerGroup, record: ShardRecord) -> None:
    """Apply a record of this group, except the tombstone that removes the group itself."""
    key = decode_consumer_key(record.key)
    assert key is not None, "a record of another kind of group"
    apply_to(group, key, record.value)


def apply_to(group: ConsumerGroup, key: ConsumerKey, value: bytes | None) -> None:
    """As `apply`, for a record whose key has been decoded."""
    match key:
        case ConsumerGroupMetadataKey():
            _apply_epoch(group, value)
        case ConsumerGroupPartitionMetadataKey():
            group.has_partition_metadata = value is not None
        case ConsumerGroupMemberMetadataKey():
            _apply_member(group, key.member_id, value)
        case ConsumerGroupTargetAssignmentMetadataKey():
            _apply_target_epoch(group, value)
        case ConsumerGroupTargetAssignmentMemberKey():
            _apply_target(group, key.member_id, value)
        case ConsumerGroupCurrentMemberAssignmentKey():
            _apply_current(group, key.member_id, value)
        case ConsumerGroupRegularExpressionKey():
            _apply_regex(group, key.regular_expression, value)


def _apply_epoch(group: ConsumerGroup, value: bytes | None) -> None:
    if value is not None:
        stored = decode_value(ConsumerGroupMetadataValue, value)
        group.epoch, group.metadata_hash = stored.epoch, stored.metadata_hash


def _apply_member(group: ConsumerGroup, member_id: str, value: bytes | None) -> None:
    if value is None:
        group.remove(member_id)
        return
    stored = decode_value(ConsumerGroupMemberMetadataValue, value)
    group.put(
        replace(
            group.members.get(member_id, ConsumerMember(member_id)),
            instance_id=stored.instance_id,
            rack_id=stored.rack_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            rebalance_timeout_ms=stored.rebalance_timeout_ms,
            topics=frozenset(stored.subscribed_topic_names),
            regex=stored.subscribed_topic_regex or "",
            assignor=stored.server_assignor,
            classic=_classic(stored),
        )
    )


def _classic(stored: ConsumerGroupMemberMetadataValue) -> ClassicSide | None:
    side = stored.classic_member_metadata
    if side is None:
        return None
    protocols = tuple((protocol.name, bytes(protocol.metadata)) for protocol in side.supported_protocols)
    return ClassicSide(side.session_timeout_ms, protocols)


def _apply_target_epoch(group: ConsumerGroup, value: bytes | None) -> None:
    if value is None:
        group.target_epoch, group.target_timestamp_ms = -1, 0
        return
    stored = decode_value(ConsumerGroupTargetAssignmentMetadataValue, value)
    group.target_epoch, group.target_timestamp_ms = stored.assignment_epoch, stored.assignment_timestamp


def _apply_target(group: ConsumerGroup, member_id: str, value: bytes | None) -> None:
    if value is None:
        group.target.pop(member_id, None)
        return
    stored = decode_value(ConsumerGroupTargetAssignmentMemberValue, value)
    group.target[member_id] = {topic.topic_id: frozenset(topic.partitions) for topic in stored.topic_partitions}


def _apply_current(group: ConsumerGroup, member_id: str, value: bytes | None) -> None:
    old = group.members.get(member_id)
    if value is None:
        if old is not None:
            group.put(_placed(old, ConsumerGroupCurrentMemberAssignmentValue(member_epoch=LEAVE_EPOCH)))
        return
    stored = decode_value(ConsumerGroupCurrentMemberAssignmentValue, value)
    group.put(_placed(old or ConsumerMember(member_id), stored))


def _placed(member: ConsumerMember, stored: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
    return replace(
        member,
        epoch=stored.member_epoch,
        previous_epoch=stored.previous_member_epoch,
        state=MemberState(stored.state),
        assigned=_held(stored.assigned_partitions, stored.member_epoch),
        revoking=_held(stored.partitions_pending_revocation, stored.member_epoch),
    )


def _held(topics: tuple[TopicPartitions, ...], member_epoch: int) -> dict[UUID, dict[int, int]]:
    """Returns partitions with their assignment epochs: the member's epoch for a record from before KIP-1251."""
    held: dict[UUID, dict[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = (member_epoch,) * len(topic.partitions)
        held[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return held


def _apply_regex(group: ConsumerGroup, regex: str, value: bytes | None) -> None:
    if value is None:
        group.regexes.pop(regex, None)
        return
    stored = decode_value(ConsumerGroupRegularExpressionValue, value)
    group.regexes[regex] = ResolvedRegex(frozenset(stored.topics), stored.version, stored.timestamp)
