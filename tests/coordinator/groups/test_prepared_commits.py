"""The records of a large commit are made in advance, by another thread: they are those that the decision would make."""

import pytest

from odradek.coordinator.contract import Token
from odradek.coordinator.groups.config import GroupConfig
from odradek.coordinator.groups.decision import Caller
from odradek.coordinator.groups.offsets import commit as offset_commit
from odradek.coordinator.groups.offsets import txn_commit as txn_offset_commit
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

CALLER = Caller(9, "client", "/127.0.0.1", "")
NOW_MS = 1000
METADATA = ("", "x" * 5000, "note", None)
"""The second is above `offset.metadata.max.bytes`: no record is written of it."""


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
    prepared = offset_commit.prepare(request, NOW_MS)
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
    prepared = txn_offset_commit.prepare(request, NOW_MS)
    with_them = GroupShard(GroupConfig()).txn_offset_commit(request, CALLER, Token(1), NOW_MS, prepared)
    without = GroupShard(GroupConfig()).txn_offset_commit(request, CALLER, Token(1), NOW_MS)
    assert [record.producer_id for record in without.records] == [5] * (len(METADATA) - 1)
    assert list(with_them.records) == list(without.records)
    assert (list(with_them.replies), with_them.producer) == (list(without.replies), without.producer)


def test_what_cannot_be_encoded_is_left_to_the_decision():
    part = OffsetCommitRequestPartition(partition_index=0, committed_metadata="x" * 40_000)
    request = OffsetCommitRequest(group_id="g", topics=(OffsetCommitRequestTopic(name="a", partitions=(part,)),))
    assert offset_commit.prepare(request, NOW_MS) is None
