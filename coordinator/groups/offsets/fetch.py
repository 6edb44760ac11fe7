"""OffsetFetch, versions 1 to 10: the committed offsets of a group; from version 8 on a request may list several groups.

With `require_stable` (from version 7 on, KIP-447) an offset that an open transaction would change is returned as
UNSTABLE_OFFSET_COMMIT: a consumer that starts from the old offset would process the transaction's records again.
"""

from uuid import UUID

from odradek.coordinator.groups.group import Group, GroupLookup
from odradek.coordinator.groups.offsets.delete import offsets_left
from odradek.coordinator.groups.offsets.store import TopicOffsets
from odradek.coordinator.groups.offsets.table import OffsetTable
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.offset_fetch import (
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
from odradek.wire.schema.types import ZERO_UUID
from odradek.wire.stored.group_records import OffsetCommitValue

NO_OFFSET = OffsetCommitValue(offset=-1, leader_epoch=-1, metadata="")
"""The response for a partition without a committed offset."""

BATCH_VERSION = 8


def offset_fetch(
    table: OffsetTable, find: GroupLookup, request: OffsetFetchRequest, api_version: int
) -> OffsetFetchResponse:
    """Serve a whole request, all of whose groups are in this shard."""
    if api_version >= BATCH_VERSION:
        stable = request.require_stable
        return OffsetFetchResponse(
            groups=tuple(offset_fetch_group(table, find(each.group_id), each, stable) for each in request.groups)
        )
    topics = None
    if request.topics is not None:
        topics = tuple(
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        )
    asked = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    group = offset_fetch_group(table, find(request.group_id), asked, request.require_stable)
    return OffsetFetchResponse(error_code=group.error_code, topics=tuple(map(_old_topic, group.topics)))


def offset_fetch_group(
    table: OffsetTable, group: Group | None, request: OffsetFetchRequestGroup, require_stable: bool
) -> OffsetFetchResponseGroup:
    """Serve one group, None when it is unknown: it then has no offsets, which is not an error."""
    error = ErrorCode.NONE if group is None else group.check_offset_fetch(request.member_id, request.member_epoch)
    if error:
        return OffsetFetchResponseGroup(group_id=request.group_id, error_code=error)
    group_id, committed = request.group_id, offsets_left(table, request.group_id)
    asked = request.topics
    if asked is None:
        asked = tuple(
            OffsetFetchRequestTopics(name=name, partition_indexes=tuple(offsets)) for name, offsets in committed.items()
        )
    topics = tuple(_topic(table, group_id, topic, committed, require_stable) for topic in asked)
    return OffsetFetchResponseGroup(group_id=group_id, topics=topics, error_code=ErrorCode.NONE)


def _topic(
    table: OffsetTable, group_id: str, topic: OffsetFetchRequestTopics, committed: TopicOffsets, require_stable: bool
) -> OffsetFetchResponseTopics:
    offsets = committed.get(topic.name, {})
    partitions = tuple(
        _unstable(index)
        if require_stable and table.store.is_pending(group_id, topic.name, index)
        else _partition(index, _of_topic(offsets.get(index, NO_OFFSET), topic.topic_id))
        for index in topic.partition_indexes
    )
    return OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


def _of_topic(value: OffsetCommitValue, topic_id: UUID) -> OffsetCommitValue:
    """Returns the commit, unless it is for another topic of that name; a zero id on either side means unknown."""
    if ZERO_UUID in (value.topic_id, topic_id) or value.topic_id == topic_id:
        return value
    return NO_OFFSET


def _unstable(index: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=-1, metadata="", error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT
    )


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
