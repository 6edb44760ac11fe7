"""OffsetDelete, version 0, and the removal of offsets with their group or their topic."""

from collections.abc import Iterator
from itertools import islice
from uuid import UUID

from odradek.coordinator.contract import Token
from odradek.coordinator.groups.decision import Decision
from odradek.coordinator.groups.group import Group
from odradek.coordinator.groups.offsets.records import offset_tombstone
from odradek.coordinator.groups.offsets.store import GroupTopicPartition, PartitionOffsets, TopicOffsets
from odradek.coordinator.groups.offsets.table import OffsetTable
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def offset_delete(
    table: OffsetTable, group: Group | None, request: OffsetDeleteRequest, token: Token, decision: Decision
) -> None:
    """Delete offsets of topics that no member of the group reads. `group` is the group of the request's id."""
    error = _check(group, request.group_id)
    if error or group is None:
        decision.reply(token, OffsetDeleteResponse(error_code=error))
        return
    topics = tuple(_delete_topic(table, group, topic, decision) for topic in request.topics)
    decision.reply(token, OffsetDeleteResponse(topics=topics))


def _check(group: Group | None, group_id: str) -> ErrorCode:
    if not group_id:
        return ErrorCode.INVALID_GROUP_ID
    return ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.check_offset_delete()


def _delete_topic(
    table: OffsetTable, group: Group, topic: OffsetDeleteRequestTopic, decision: Decision
) -> OffsetDeleteResponseTopic:
    in_use = group.is_subscribed_to(topic.name)
    error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if in_use else ErrorCode.NONE
    for partition in topic.partitions:
        known = _has_offset(table, group.group_id, topic.name, partition.partition_index)
        if known and not in_use:
            decision.record(offset_tombstone(group.group_id, topic.name, partition.partition_index))
    partitions = tuple(
        OffsetDeleteResponsePartition(partition_index=partition.partition_index, error_code=error)
        for partition in topic.partitions
    )
    return OffsetDeleteResponseTopic(name=topic.name, partitions=partitions)


def _has_offset(table: OffsetTable, group_id: str, topic: str, partition: int) -> bool:
    committed = table.store.get(group_id, topic, partition) is not None
    return committed or table.store.is_pending(group_id, topic, partition)


def delete_all_offsets(table: OffsetTable, group_id: str, decision: Decision) -> None:
    """Delete every offset of a group, including pending ones."""
    committed = [(topic, index) for topic, indexes in table.store.topics(group_id).items() for index in indexes]
    for topic, partition in dict.fromkeys([*committed, *table.store.pending_partitions(group_id)]):
        decision.record(offset_tombstone(group_id, topic, partition))


def delete_offsets_of_topics(table: OffsetTable, decision: Decision, limit: int) -> None:
    """Delete all offsets in `table.deleted_topics`, of every group, including pending ones, at most `limit` at once.

    While more may remain, the deletion timer is set. Offsets in a topic that has been created again are kept.
    """
    found = list(islice(_deleted_offsets(table), limit))
    for group_id, topic, partition in found:
        decision.record(offset_tombstone(group_id, topic, partition))
    if len(found) < limit:
        table.deleted_topics.clear()
    else:
        table.timers.set(table.deletion_timer, decision.now_ms)


def offsets_left(table: OffsetTable, group_id: str) -> TopicOffsets:
    """Returns all commits of a group except those about to be deleted with their topics. Not to be changed."""
    topics = table.store.topics(group_id)
    if table.deleted_topics.isdisjoint(topics):
        return topics
    ids = _current_ids(table)
    return {
        topic: partitions
        for topic, committed in topics.items()
        if (partitions := committed if topic not in ids else _of_topic(committed, ids[topic]))
    }


def _of_topic(committed: PartitionOffsets, topic_id: UUID | None) -> PartitionOffsets:
    return {index: value for index, value in committed.items() if value.topic_id == topic_id}


def _current_ids(table: OffsetTable) -> dict[str, UUID | None]:
    """Returns the id of the current topic with the name of each deleted topic, None if there is none."""
    image = table.image()
    return {name: None if (topic := image.topic(name)) is None else topic.topic_id for name in table.deleted_topics}


def _deleted_offsets(table: OffsetTable) -> Iterator[GroupTopicPartition]:
    """Yield every offset in a deleted topic, committed or pending, once."""
    ids = _current_ids(table)
    for group_id, topics in table.store.groups():
        for topic, partitions in topics.items():
            if topic in ids:
                yield from (
                    (group_id, topic, index) for index, value in partitions.items() if value.topic_id != ids[topic]
                )
    seen: set[GroupTopicPartition] = set()
    for _, group_id, topic, partition, value in table.store.each_pending():
        key = (group_id, topic, partition)
        # A tombstone removes the committed offset too, which was yielded above or belongs to the current topic.
        if topic in ids and value.topic_id != ids[topic] and key not in seen and table.store.get(*key) is None:
            seen.add(key)
            yield key
