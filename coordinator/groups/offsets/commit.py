"""OffsetCommit, versions 2 to 9: a member, or a consumer that manages its partitions itself, stores its positions.

Whether the topics and partitions exist is the handler's question; it sends on only those that do.
"""

from collections.abc import Sequence

from odradek.coordinator.contract import ShardRecord, Token
from odradek.coordinator.groups import records
from odradek.coordinator.groups.classic.group import ClassicGroup
from odradek.coordinator.groups.classic.rebalance import keep_alive
from odradek.coordinator.groups.classic.states import GroupState
from odradek.coordinator.groups.consumer.committing import check_commit
from odradek.coordinator.groups.decision import Caller, Decision
from odradek.coordinator.groups.table import GroupTable
from odradek.wire.errors import EncodeError, ErrorCode
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from odradek.wire.messages.txn_offset_commit import TxnOffsetCommitRequestPartition

GROUP_ID_NOT_FOUND_VERSION = 9
"""From this version an unknown group is called that; before, clients know only ILLEGAL_GENERATION."""

DEFAULT_RETENTION = -1

LAST_TIMESTAMP_MS = 2**63 - 1

Prepared = Sequence[Sequence[ShardRecord]]
"""The records of a commit, for each topic of the request in order those of its partitions."""


def offset_commit(
    table: GroupTable,
    request: OffsetCommitRequest,
    caller: Caller,
    token: Token,
    decision: Decision,
    prepared: Prepared | None = None,
) -> None:
    """Write what may be committed; each partition gets its own error. `prepared` are the request's records, if made."""
    group = table.groups.get(request.group_id)
    consumer_group = table.consumer.groups.get(request.group_id)
    if consumer_group is None:
        error = _check(group, request, caller.api_version)
    else:
        error = check_commit(consumer_group, request, request.topics, caller.api_version)
    if group is not None and not error:
        _keep_session(table, group, request.member_id, decision.now_ms)
    listed = zip(request.topics, prepared or [()] * len(request.topics), strict=True)
    topics = tuple([_commit_topic(table, request, topic, made, error, decision) for topic, made in listed])
    decision.reply(token, OffsetCommitResponse(topics=topics))


def _check(group: ClassicGroup | None, request: OffsetCommitRequest, api_version: int) -> ErrorCode:
    generation = request.generation_id_or_member_epoch
    if group is None:
        if generation < 0:
            return ErrorCode.NONE  # a simple consumer: replay of its first commit makes the group
        by_name = api_version >= GROUP_ID_NOT_FOUND_VERSION
        return ErrorCode.GROUP_ID_NOT_FOUND if by_name else ErrorCode.ILLEGAL_GENERATION
    if generation < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE  # an administrator, or a simple consumer
    error = group.check_member(request.member_id, request.group_instance_id)
    if error:
        return error
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is GroupState.COMPLETING_REBALANCE:
        # The member knows the new generation but not yet its partitions, so it cannot know what it commits.
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _keep_session(table: GroupTable, group: ClassicGroup, member_id: str, now_ms: int) -> None:
    member = group.members.get(member_id)
    if member is not None:
        keep_alive(table, member, now_ms)


def _commit_topic(
    table: GroupTable,
    request: OffsetCommitRequest,
    topic: OffsetCommitRequestTopic,
    prepared: Sequence[ShardRecord],
    error: ErrorCode,
    decision: Decision,
) -> OffsetCommitResponseTopic:
    partitions: list[OffsetCommitResponsePartition] = []
    for number, partition in enumerate(topic.partitions):
        answer = error or check_metadata(partition, table.config.offset_metadata_max_bytes)
        if not answer:
            decision.record(prepared[number] if prepared else _record(request, topic, partition, decision.now_ms))
        partitions.append(OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=answer))
    return OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=tuple(partitions))


def prepare(request: OffsetCommitRequest, now_ms: int) -> Prepared | None:
    """All records that the request may write at `now_ms`, before it is decided which of them are written.

    It needs no state, so that another thread may do it for a large request. None when one cannot be encoded: most
    likely its metadata is too large, which is for the decision to find.
    """
    try:
        return [
            [_record(request, topic, partition, now_ms) for partition in topic.partitions] for topic in request.topics
        ]
    except EncodeError:
        return None


def _record(
    request: OffsetCommitRequest,
    topic: OffsetCommitRequestTopic,
    partition: OffsetCommitRequestPartition,
    now_ms: int,
) -> ShardRecord:
    expire_ms = _expire_ms(request.retention_time_ms, now_ms)
    return records.offset_record(request.group_id, topic, partition, now_ms, expire_ms)


def check_metadata(partition: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition, limit: int) -> ErrorCode:
    """Whether what a client notes beside an offset is within `offset.metadata.max.bytes`."""
    too_large = len(partition.committed_metadata or "") > limit
    return ErrorCode.OFFSET_METADATA_TOO_LARGE if too_large else ErrorCode.NONE


def _expire_ms(retention_ms: int, now_ms: int) -> int | None:
    """When a commit of versions 2 to 4 that brought its own retention expires; the sum must fit into an int64."""
    return None if retention_ms == DEFAULT_RETENTION else min(now_ms + retention_ms, LAST_TIMESTAMP_MS)
