"""OffsetDelete, version 0, and what happens to offsets when their topics are deleted."""

from collections.abc import Collection, Iterator
from itertools import islice
from uuid import UUID

from odradek.coordinator.contract import Token
from odradek.coordinator.groups import records
from odradek.coordinator.groups.classic.group import ClassicGroup
from odradek.coordinator.groups.classic.states import GroupState
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.groups.decision import Decision
from odradek.coordinator.groups.offsets.store import PartitionOffsets, Place, TopicOffsets
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


def delete_offsets_of_topics(table: GroupTable, decision: Decision, limit: int) -> None:
    """Forget offsets of every group in `table.deleted_topics`, no more than `limit` at once.

    While there may be more of them, the deletion timer is set. Offsets in a topic that was created under the same name
    since stay.
    """
    places = list(islice(_places(table, table.deleted_topics), limit))
    for place in places:
        decision.record(records.offset_tombstone(*place))
    if len(places) < limit:
        table.deleted_topics.clear()
    else:
        table.timers.set(table.deletion_timer, decision.now_ms)


def offsets_left(table: GroupTable, group_id: str) -> TopicOffsets:
    """All commits of a group but those that are about to be deleted with their topics. Not to be changed."""
    topics = table.offsets.topics(group_id)
    if table.deleted_topics.isdisjoint(topics):
        return topics
    ids = _ids(table, table.deleted_topics)
    return {
        topic: partitions
        for topic, committed in topics.items()
        if (partitions := committed if topic not in ids else _of_topic(committed, ids[topic]))
    }


def _of_topic(committed: PartitionOffsets, topic_id: UUID | None) -> PartitionOffsets:
    return {index: value for index, value in committed.items() if value.topic_id == topic_id}


def _ids(table: GroupTable, names: Collection[str]) -> dict[str, UUID | None]:
    """The id of the topic that has each name now, None where there is none."""
    image = table.consumer.image()
    return {name: None if (topic := image.topic(name)) is None else topic.topic_id for name in names}


def _places(table: GroupTable, deleted: Collection[str]) -> Iterator[Place]:
    """Where there are offsets in the topics of these names that are deleted; each place once."""
    ids = _ids(table, deleted)
    for group_id, topics in table.offsets.groups():
        for topic, partitions in topics.items():
            if topic in ids:
                yield from (
                    (group_id, topic, index) for index, value in partitions.items() if value.topic_id != ids[topic]
                )
    seen: set[Place] = set()
    for _, group_id, topic, partition, value in table.offsets.each_pending():
        place = (group_id, topic, partition)
        if topic in ids and value.topic_id != ids[topic] and place not in seen and table.offsets.get(*place) is None:
            seen.add(place)
            yield place
