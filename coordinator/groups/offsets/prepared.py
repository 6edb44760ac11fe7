"""The records of OffsetCommit and TxnOffsetCommit; those of a large request are encoded before the decision.

They depend on no state, so that a worker thread can encode them. The decision selects those that are written.
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
    """The encoded records of a request, by topic and partition in its order, and the batch of all of them."""

    topics: Sequence[Sequence[ShardRecord]]
    batch: bytes

    @property
    def count(self) -> int:
        """The number of records in the batch."""
        return sum([len(topic) for topic in self.topics])


def prepare(request: Commit, now_ms: int) -> Prepared | None:
    """Encode all records that the request may write at `now_ms`.

    None when one cannot be encoded: most likely its metadata is too large, which the decision then reports.
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
    """Returns the record of one partition. Raises odradek.wire.errors.EncodeError for metadata that is too long."""
    if isinstance(request, TxnOffsetCommitRequest):
        return offset_record(request.group_id, topic, partition, now_ms, producer_id=request.producer_id)
    expire_ms = _expire_ms(request.retention_time_ms, now_ms)
    return offset_record(request.group_id, topic, partition, now_ms, expire_ms)


def _expire_ms(retention_ms: int, now_ms: int) -> int | None:
    """Returns the expiry of a commit with a retention (versions 2 to 4), limited to an int64; None without one."""
    return None if retention_ms == DEFAULT_RETENTION else min(now_ms + retention_ms, LAST_TIMESTAMP_MS)
