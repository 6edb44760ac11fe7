"""TxnOffsetCommit, versions 0 to 4: positions that count if the producer's transaction commits (KIP-98, KIP-447).

From version 3 a consumer names itself, so that one that was given up cannot commit; older producers do not, and are
held back by their epoch alone. Unlike OffsetCommit it is allowed while members wait for their assignment.
"""

from collections.abc import Sequence

from odradek.coordinator.contract import Producer, ShardRecord, Token
from odradek.coordinator.groups.classic.group import ClassicGroup
from odradek.coordinator.groups.classic.states import GroupState
from odradek.coordinator.groups.consumer.committing import check_transactional_commit
from odradek.coordinator.groups.decision import Decision
from odradek.coordinator.groups.offsets.commit import batch_of_all, check_metadata
from odradek.coordinator.groups.offsets.prepared import Prepared, commit_record
from odradek.coordinator.groups.table import GroupTable
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)


def txn_offset_commit(
    table: GroupTable,
    request: TxnOffsetCommitRequest,
    token: Token,
    decision: Decision,
    prepared: Prepared | None = None,
) -> None:
    """Write what may be committed, in the producer's transaction; each partition gets its own error.

    `prepared` are the request's records, if they are made already.
    """
    consumer_group = table.consumer.groups.get(request.group_id)
    if consumer_group is None:
        error = _check(table.groups.get(request.group_id), request)
    else:
        error = check_transactional_commit(consumer_group, request, request.topics)
    listed = zip(request.topics, prepared.topics if prepared else [()] * len(request.topics), strict=True)
    topics = tuple([_commit_topic(table, request, topic, made, error, decision) for topic, made in listed])
    decision.batch = batch_of_all(decision, prepared)
    decision.producer = Producer(request.producer_id, request.producer_epoch)
    decision.reply(token, TxnOffsetCommitResponse(topics=topics))


def _check(group: ClassicGroup | None, request: TxnOffsetCommitRequest) -> ErrorCode:
    generation = request.generation_id_or_member_epoch
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None:
        # A simple consumer: replay of its first commit makes the group.
        return ErrorCode.NONE if generation < 0 else ErrorCode.ILLEGAL_GENERATION
    if generation < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    names_itself = generation >= 0 or request.member_id or request.group_instance_id is not None
    if not names_itself:
        return ErrorCode.NONE
    error = group.check_member(request.member_id, request.group_instance_id)
    if not error and generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return error


def _commit_topic(
    table: GroupTable,
    request: TxnOffsetCommitRequest,
    topic: TxnOffsetCommitRequestTopic,
    prepared: Sequence[ShardRecord],
    error: ErrorCode,
    decision: Decision,
) -> TxnOffsetCommitResponseTopic:
    partitions: list[TxnOffsetCommitResponsePartition] = []
    for number, partition in enumerate(topic.partitions):
        answer = error or check_metadata(partition, table.config.offset_metadata_max_bytes)
        if not answer:
            made = prepared[number] if prepared else commit_record(request, topic, partition, decision.now_ms)
            decision.record(made)
        partitions.append(
            TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=answer)
        )
    return TxnOffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=tuple(partitions))
