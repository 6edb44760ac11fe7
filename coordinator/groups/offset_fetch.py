"""OffsetFetch, versions 1 to 9: where a group is. From version 8 for several groups, whose pieces a handler joins.

`require_stable` (from version 7) has no effect yet: until offsets can be part of transactions, all are stable.
"""

from coordinator.groups.offset_store import PartitionOffsets
from coordinator.groups.table import GroupTable
from wire.errors import ErrorCode
from wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from wire.stored.group_records import OffsetCommitValue

NO_OFFSET = OffsetCommitValue(offset=-1, leader_epoch=-1, metadata="")
"""What an answer says where nothing is committed."""

BATCH_VERSION = 8


def offset_fetch(table: GroupTable, request: OffsetFetchRequest, api_version: int) -> OffsetFetchResponse:
    """Answer a whole request all of whose groups are in this shard."""
    if api_version >= BATCH_VERSION:
        return OffsetFetchResponse(groups=tuple(offset_fetch_group(table, group) for group in request.groups))
    topics = None
    if request.topics is not None:
        topics = tuple(
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        )
    group = offset_fetch_group(table, OffsetFetchRequestGroup(group_id=request.group_id, topics=topics))
    return OffsetFetchResponse(error_code=group.error_code, topics=tuple(map(_old_topic, group.topics)))


def offset_fetch_group(table: GroupTable, request: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
    """Answer for one group. An unknown group has no offsets, which is no error."""
    committed = table.offsets.topics(request.group_id)
    if request.topics is None:
        topics = tuple(
            OffsetFetchResponseTopics(name=name, partitions=tuple(map(_partition, offsets, offsets.values())))
            for name, offsets in committed.items()
        )
    else:
        topics = tuple(_topic(topic, committed.get(topic.name, {})) for topic in request.topics)
    return OffsetFetchResponseGroup(group_id=request.group_id, topics=topics, error_code=ErrorCode.NONE)


def _topic(topic: OffsetFetchRequestTopics, offsets: PartitionOffsets) -> OffsetFetchResponseTopics:
    indexes = topic.partition_indexes
    partitions = tuple(_partition(index, offsets.get(index, NO_OFFSET)) for index in indexes)
    return OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


def _partition(index: int, value: OffsetCommitValue) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=value.offset,
        committed_leader_epoch=value.leader_epoch,
        metadata=value.metadata,
    )


def _old_topic(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic:
    partitions = tuple(
        OffsetFetchResponsePartition(
            partition_index=partition.partition_index,
            committed_offset=partition.committed_offset,
            committed_leader_epoch=partition.committed_leader_epoch,
            metadata=partition.metadata,
            error_code=partition.error_code,
        )
        for partition in topic.partitions
    )
    return OffsetFetchResponseTopic(name=topic.name, partitions=partitions)
