"""OffsetCommit, versions 2 to 9: a member, or a consumer that manages its partitions itself, stores its positions.

Whether the topics and partitions exist is the handler's question; it sends on only those that do.
"""

from collections.abc import Sequence

from odradek.coordinator.contract import ShardRecord, Token
from odradek.coordinator.groups.classic.group import ClassicGroup
from odradek.coordinator.groups.classic.rebalance import keep_alive
from odradek.coordinator.groups.classic.states import GroupState
from odradek.coordinator.groups.consumer.committing import check_commit
from odradek.coordinator.groups.decision import Caller, Decision
from odradek.coordinator.groups.offsets.prepared import CommitPartition, Prepared, commit_record
from odradek.coordinator.groups.table import GroupTable
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

GROUP_ID_NOT_FOUND_VERSION = 9
"""From this version an unknown group is called that; before, clients know only ILLEGAL_GENERATION."""


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
    listed = zip(request.topics, prepared.topics if prepared else [()] * len(request.topics), strict=True)
    topics = tuple([_commit_topic(table, request, topic, made, error, decision) for topic, made in listed])
    decision.batch = batch_of_all(decision, prepared)
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
            made = prepared[number] if prepared else commit_record(request, topic, partition, decision.now_ms)
            decision.record(made)
        partitions.append(OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=answer))
    return OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=tuple(partitions))


def batch_of_all(decision: Decision, prepared: Prepared | None) -> bytes | None:
    """The batch that was made in advance, unless something that is in it is not written."""
    return prepared.batch if prepared and len(decision.records) == prepared.count else None


def check_metadata(partition: CommitPartition, limit: int) -> ErrorCode:
    """Whether what a client notes beside an offset is within `offset.metadata.max.bytes`."""
    too_large = len(partition.committed_metadata or "") > limit
    return ErrorCode.OFFSET_METADATA_TOO_LARGE if too_large else ErrorCode.NONE
