"""OffsetCommit, versions 2 to 10: a member, or a consumer that assigns its partitions itself, commits offsets.

The handler passes on only topics and partitions that exist.
"""

from collections.abc import Sequence

from odradek.coordinator.contract import ShardRecord, Token
from odradek.coordinator.groups.decision import ClientInfo, Decision
from odradek.coordinator.groups.group import Group
from odradek.coordinator.groups.offsets.prepared import CommitPartition, Prepared, commit_record
from odradek.coordinator.groups.offsets.table import OffsetTable
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

GROUP_ID_NOT_FOUND_VERSION = 9
"""From this version on an unknown group is GROUP_ID_NOT_FOUND; before, clients support only ILLEGAL_GENERATION."""


def offset_commit(
    table: OffsetTable,
    group: Group | None,
    request: OffsetCommitRequest,
    client: ClientInfo,
    token: Token,
    decision: Decision,
    prepared: Prepared | None = None,
) -> None:
    """Write the commits that are allowed; the reply has an error for each partition.

    `group` is the group of the request's id. `prepared` are the request's records, if `prepare` has encoded them.
    """
    error = _check(group, request, client.api_version)
    if group is not None and not error:
        group.on_offset_commit(request.member_id, table.timers, decision.now_ms)
    listed = zip(request.topics, prepared.topics if prepared else [()] * len(request.topics), strict=True)
    topics = tuple([_commit_topic(table, request, topic, made, error, decision) for topic, made in listed])
    decision.batch = batch_of_all(decision, prepared)
    decision.reply(token, OffsetCommitResponse(topics=topics))


def _check(group: Group | None, request: OffsetCommitRequest, api_version: int) -> ErrorCode:
    if group is not None:
        return group.check_offset_commit(request, api_version)
    if request.generation_id_or_member_epoch < 0:
        return ErrorCode.NONE  # a consumer that assigns its partitions itself; replay of the commit creates its group
    by_name = api_version >= GROUP_ID_NOT_FOUND_VERSION
    return ErrorCode.GROUP_ID_NOT_FOUND if by_name else ErrorCode.ILLEGAL_GENERATION


def _commit_topic(
    table: OffsetTable,
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
    """Returns the batch that was encoded in advance; None if not all of its records must be written."""
    return prepared.batch if prepared and len(decision.records) == prepared.count else None


def check_metadata(partition: CommitPartition, limit: int) -> ErrorCode:
    """Returns NONE if the metadata is within `offset.metadata.max.bytes`, else OFFSET_METADATA_TOO_LARGE."""
    too_large = len(partition.committed_metadata or "") > limit
    return ErrorCode.OFFSET_METADATA_TOO_LARGE if too_large else ErrorCode.NONE
