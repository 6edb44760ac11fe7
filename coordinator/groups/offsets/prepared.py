"""The records of OffsetCommit and TxnOffsetCommit, which of a large request are made before it is decided.

They depend on no state, so that another thread makes them; which of them are written is the decision's.
"""

from collections.abc import Sequence
from typing import Final

from odradek.coordinator.contract import Producer, ShardRecord, encode_batch
from odradek.coordinator.groups.offsets.records import offset_record
from odradek.wire.errors import EncodeError
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.wire.values import immutable

DEFAULT_RETENTION: Final = -1
LAST_TIMESTAMP_MS: Final = 2**63 - 1

Commit = OffsetCommitRequest | TxnOffsetCommitRequest
CommitTopic = OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic
CommitPartition = OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition


@immutable
class Prepared:
    """The records of a commit, for each topic of the request in order those of its partitions, and the batch of all."""

    topics: Sequence[Sequence[ShardRecord]]
    batch: bytes

    @property
    def count(self) -> int:
        """How many records the batch holds."""
        return sum([len(topic) for topic in self.topics])


def prepare(request: Commit, now_ms: int) -> Prepared | None:
    """All records that the request may write at `now_ms`.

    None when one cannot be encoded: most likely its metadata is too large, which is for the decision to find.
    """
    try:
        topics = [
            [commit_record(request, topic, part, now_ms) for part in topic.partitions] for topic in request.topics
        ]
    except EncodeError:
        return None
    producer = None
    if isinstance(request, TxnOffsetCommitRequest):
        producer = Producer(request.producer_id, request.producer_epoch)
    return Prepared(topics, encode_batch([record for topic in topics for record in topic], producer, now_ms))


def commit_record(request: Commit, topic: CommitTopic, partition: CommitPartition, now_ms: int) -> ShardRecord:
    """The record of one partition; a transaction's belongs to its producer."""
    if isinstance(request, TxnOffsetCommitRequest):
        return offset_record(request.group_id, topic, partition, now_ms, producer_id=request.producer_id)
    expire_ms = _expire_ms(request.retention_time_ms, now_ms)
    return offset_record(request.group_id, topic, partition, now_ms, expire_ms)


def _expire_ms(retention_ms: int, now_ms: int) -> int | None:
    """When a commit of versions 2 to 4 that brought its own retention expires; the sum must fit into an int64."""
    return None if retention_ms == DEFAULT_RETENTION else min(now_ms + retention_ms, LAST_TIMESTAMP_MS)
