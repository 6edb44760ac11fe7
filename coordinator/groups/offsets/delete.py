"""OffsetDelete, version 0, and what happens to offsets when their topics are deleted."""

from collections.abc import Collection

from odradek.coordinator.contract import Token
from odradek.coordinator.groups import records
from odradek.coordinator.groups.classic.group import ClassicGroup
from odradek.coordinator.groups.classic.states import GroupState
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.groups.decision import Decision
from odradek.coordinator.groups.table import GroupTable
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def offset_delete(table: GroupTable, request: OffsetDeleteRequest, token: Token, decision: Decision) -> None:
    """Delete offsets of topics that no member of the group reads."""
    group = table.groups.get(request.group_id) or table.consumer.groups.get(request.group_id)
    error = _check(group, request.group_id)
    if error or group is None:
        decision.reply(token, OffsetDeleteResponse(error_code=error))
        return
    topics = tuple(_delete_topic(table, group, topic, decision) for topic in request.topics)
    decision.reply(token, OffsetDeleteResponse(topics=topics))


def _check(group: ClassicGroup | ConsumerGroup | None, group_id: str) -> ErrorCode:
    if not group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if isinstance(group, ConsumerGroup):
        return ErrorCode.NONE
    # Of a consumer group the subscriptions are known, so unread topics can be told apart even while it is busy.
    deletable = group.state is GroupState.EMPTY or group.is_consumer_group()
    return ErrorCode.NONE if deletable else ErrorCode.NON_EMPTY_GROUP


def _delete_topic(
    table: GroupTable, group: ClassicGroup | ConsumerGroup, topic: OffsetDeleteRequestTopic, decision: Decision
) -> OffsetDeleteResponseTopic:
    in_use = group.is_subscribed_to(topic.name)
    error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if in_use else ErrorCode.NONE
    for partition in topic.partitions:
        known = _has_offset(table, group.group_id, topic.name, partition.partition_index)
        if known and not in_use:
            decision.record(records.offset_tombstone(group.group_id, topic.name, partition.partition_index))
    partitions = tuple(
        OffsetDeleteResponsePartition(partition_index=partition.partition_index, error_code=error)
        for partition in topic.partitions
    )
    return OffsetDeleteResponseTopic(name=topic.name, partitions=partitions)


def _has_offset(table: GroupTable, group_id: str, topic: str, partition: int) -> bool:
    committed = table.offsets.get(group_id, topic, partition) is not None
    return committed or table.offsets.is_pending(group_id, topic, partition)


def delete_offsets_of_topics(table: GroupTable, topics: Collection[str], decision: Decision) -> None:
    """Forget every group's offsets in topics that are no more."""
    gone = frozenset(topics)
    committed = ((group_id, topic, partition) for group_id, topic, partition, _ in table.offsets.each())
    pending = ((group_id, topic, partition) for _, group_id, topic, partition, _ in table.offsets.each_pending())
    for place in dict.fromkeys([*committed, *pending]):
        if place[1] in gone:
            decision.record(records.offset_tombstone(*place))
