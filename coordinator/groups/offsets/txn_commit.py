"""TxnOffsetCommit, versions 0 to 5: offsets committed with the producer's transaction (KIP-98, KIP-447).

From version 3 on a request identifies the consumer, so that one that was removed from its group cannot commit; before,
only the epoch of the producer fences it. Unlike OffsetCommit it is allowed while members wait for their assignment.
"""

from collections.abc import Sequence

from odradek.coordinator.contract import Producer, ShardRecord, Token
from odradek.coordinator.groups.decision import Decision
from odradek.coordinator.groups.group import Group
from odradek.coordinator.groups.offsets.commit import batch_of_all, check_metadata
from odradek.coordinator.groups.offsets.prepared import Prepared, commit_record
from odradek.coordinator.groups.offsets.table import OffsetTable
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)


def txn_offset_commit(
    table: OffsetTable,
    group: Group | None,
    request: TxnOffsetCommitRequest,
    token: Token,
    decision: Decision,
    prepared: Prepared | None = None,
) -> None:
    """Write the commits that are allowed, in the producer's transaction; the reply has an error for each partition.

    `group` is the group of the request's id. `prepared` are the request's records, if `prepare` has encoded them.
    """
    error = _check(group, request)
    listed = zip(request.topics, prepared.topics if prepared else [()] * len(request.topics), strict=True)
    topics = tuple([_commit_topic(table, request, topic, made, error, decision) for topic, made in listed])
    decision.batch = batch_of_all(decision, prepared)
    decision.producer = Producer(request.producer_id, request.producer_epoch)
    decision.reply(token, TxnOffsetCommitResponse(topics=topics))


def _check(group: Group | None, request: TxnOffsetCommitRequest) -> ErrorCode:
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is not None:
        return group.check_txn_offset_commit(request)
    # A consumer that assigns its partitions itself: replay of its first commit creates the group.
    return ErrorCode.NONE if request.generation_id_or_member_epoch < 0 else ErrorCode.ILLEGAL_GENERATION


def _commit_topic(
    table: OffsetTable,
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
