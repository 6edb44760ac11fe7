"""Verification that partitions are in a transaction, with several logs and one coordinator (KIP-890)."""

import pytest
from partition_fakes import Partition, end_marker, of_producer

from odradek.partitions.config import LogConfig
from odradek.partitions.results import Appended, Rejected
from odradek.partitions.transaction_guard import GuardedBatch, TransactionGuard, VerificationGuard
from odradek.wire.errors import ErrorCode

P = 4001
VERIFYING = LogConfig(transaction_verification=True)


def batch(sequence):
    return of_producer(P, sequence, transactional=True)


@pytest.fixture
def logs():
    return {name: Partition(VERIFYING) for name in ("a", "b")}


def question(logs, *, epoch=0, sequence=0):
    return TransactionGuard({name: GuardedBatch(P, epoch, sequence) for name in logs}, adds_partition=False)


def pure(logs):
    return {name: partition.leader for name, partition in logs.items()}


def test_a_log_with_an_open_transaction_is_not_asked_about(logs):
    logs["b"].append(batch(0), guard=logs["b"].leader.verification(P, 0, 0))
    asked = question(logs, sequence=1)
    assert asked.begin(pure(logs)) == ["a"]
    assert set(asked.outcomes) == {"a"}


def test_a_log_that_does_not_serve_is_left_out(logs):
    asked = question(logs)
    assert asked.begin({"b": logs["b"].leader}) == ["b"]
    asked.answer({"b": ErrorCode.NONE}, {})
    assert not asked.is_overtaken({})


def test_an_epoch_that_has_passed_is_refused_without_a_question(logs):
    logs["a"].mark(end_marker(P, committed=True, epoch=3))
    asked = question(logs, epoch=2)
    assert asked.begin(pure(logs)) == ["b"]
    assert asked.outcomes["a"] is ErrorCode.INVALID_PRODUCER_EPOCH


def test_only_a_positive_answer_lets_the_batch_in(logs):
    asked = question(logs)
    asked.begin(pure(logs))
    asked.answer({"a": ErrorCode.NONE, "b": ErrorCode.INVALID_TXN_STATE}, pure(logs))
    assert not asked.is_overtaken(pure(logs))
    assert asked.outcomes["b"] is ErrorCode.INVALID_TXN_STATE
    guard = asked.outcomes["a"]
    assert isinstance(guard, VerificationGuard)
    assert isinstance(logs["a"].append(batch(0), guard=guard), Appended)


def test_a_marker_that_comes_before_the_answer_makes_it_begin_again(logs):
    asked = question(logs)
    asked.begin(pure(logs))
    logs["b"].mark(end_marker(P, committed=True))
    asked.answer({"a": ErrorCode.NONE, "b": ErrorCode.NONE}, pure(logs))
    assert asked.is_overtaken(pure(logs))
    assert asked.begin(pure(logs)) == ["a", "b"]
    assert not asked.is_overtaken(pure(logs))


@pytest.mark.parametrize(("sequence", "stays"), [(4, True), (-1, False)])
def test_the_guard_of_a_refused_batch_stays_only_where_it_keeps_an_order(logs, sequence, stays):
    asked = question(logs, sequence=sequence)
    asked.begin(pure(logs))
    guard = asked.outcomes["a"]
    assert isinstance(guard, VerificationGuard)
    asked.answer({"a": ErrorCode.NOT_COORDINATOR}, pure(logs))
    assert logs["a"].leader.is_overtaken(P, guard) is not stays
    behind = logs["a"].append(batch(5), guard=guard)
    assert isinstance(behind, Rejected)
    expected = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if stays else ErrorCode.INVALID_TXN_STATE
    assert behind.error is expected
