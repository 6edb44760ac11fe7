"""The records of a large commit are made in advance by another thread, equal to those of the decision itself."""

import pytest

from odradek.coordinator.contract import Token, encode_batch
from odradek.coordinator.groups.config import GroupConfig
from odradek.coordinator.groups.decision import ClientInfo
from odradek.coordinator.groups.offsets.prepared import prepare
from odradek.coordinator.groups.shard import GroupShard
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

CALLER = ClientInfo(9, "client", "/127.0.0.1", "")
NOW_MS = 1000
METADATA = ("", "x" * 5000, "note", None)
"""The second exceeds `offset.metadata.max.bytes`: no record is written for it."""


def _parts(kind):
    return tuple(
        [kind(partition_index=at % 3, committed_offset=at, committed_metadata=each) for at, each in enumerate(METADATA)]
    )


def _commit(retention_ms):
    topics = [OffsetCommitRequestTopic(name=name, partitions=_parts(OffsetCommitRequestPartition)) for name in "ab"]
    return OffsetCommitRequest(group_id="g", retention_time_ms=retention_ms, topics=tuple(topics))


@pytest.mark.parametrize("retention_ms", [-1, 7])
def test_a_prepared_commit_writes_and_answers_the_same(retention_ms):
    request = _commit(retention_ms)
    prepared = prepare(request, NOW_MS)
    with_them = GroupShard(GroupConfig()).offset_commit(request, CALLER, Token(1), NOW_MS, prepared)
    without = GroupShard(GroupConfig()).offset_commit(request, CALLER, Token(1), NOW_MS)
    assert len(without.records) == 2 * (len(METADATA) - 1)
    assert list(with_them.records) == list(without.records)
    assert list(with_them.replies) == list(without.replies)


def test_a_prepared_transactional_commit_writes_and_answers_the_same():
    topics = [TxnOffsetCommitRequestTopic(name="a", partitions=_parts(TxnOffsetCommitRequestPartition))]
    request = TxnOffsetCommitRequest(
        transactional_id="x", group_id="g", producer_id=5, producer_epoch=1, topics=tuple(topics)
    )
    prepared = prepare(request, NOW_MS)
    with_them = GroupShard(GroupConfig()).txn_offset_commit(request, CALLER, Token(1), NOW_MS, prepared)
    without = GroupShard(GroupConfig()).txn_offset_commit(request, CALLER, Token(1), NOW_MS)
    assert [record.producer_id for record in without.records] == [5] * (len(METADATA) - 1)
    assert list(with_them.records) == list(without.records)
    assert (list(with_them.replies), with_them.producer) == (list(without.replies), without.producer)


def test_what_cannot_be_encoded_is_left_to_the_decision():
    part = OffsetCommitRequestPartition(partition_index=0, committed_metadata="x" * 40_000)
    request = OffsetCommitRequest(group_id="g", topics=(OffsetCommitRequestTopic(name="a", partitions=(part,)),))
    assert prepare(request, NOW_MS) is None


@pytest.mark.parametrize("metadata", ["note", "x" * 5000])
def test_the_batch_is_made_in_advance_unless_something_of_it_is_not_written(metadata):
    parts = (OffsetCommitRequestPartition(partition_index=1), _with(OffsetCommitRequestPartition, metadata))
    request = OffsetCommitRequest(group_id="g", topics=(OffsetCommitRequestTopic(name="a", partitions=parts),))
    outcome = GroupShard(GroupConfig()).offset_commit(request, CALLER, Token(1), NOW_MS, prepare(request, NOW_MS))
    whole = encode_batch(outcome.records, None, NOW_MS)
    assert outcome.batch == (whole if len(outcome.records) == len(parts) else None)
    assert len(outcome.records) == (2 if metadata == "note" else 1)


def test_the_batch_made_in_advance_is_the_transactions():
    parts = (_with(TxnOffsetCommitRequestPartition, "note"),)
    topics = (TxnOffsetCommitRequestTopic(name="a", partitions=parts),)
    request = TxnOffsetCommitRequest(transactional_id="x", group_id="g", producer_id=5, producer_epoch=1, topics=topics)
    prepared = prepare(request, NOW_MS)
    outcome = GroupShard(GroupConfig()).txn_offset_commit(request, CALLER, Token(1), NOW_MS, prepared)
    assert outcome.batch == encode_batch(outcome.records, outcome.producer, NOW_MS)


def _with(kind, metadata):
    return kind(partition_index=0, committed_offset=3, committed_metadata=metadata)
