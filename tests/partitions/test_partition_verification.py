"""The guard around a request to the transaction coordinator (KIP-890), and the order of batches that it keeps."""

from partition_fakes import NOW_MS, Partition, end_marker, of_producer

from odradek.partitions.config import LogConfig
from odradek.partitions.results import Appended, Duplicate, Rejected
from odradek.wire.errors import ErrorCode

P = 4001
VERIFYING = LogConfig(transaction_verification=True)


def batch(sequence, epoch=0):
    return of_producer(P, sequence, epoch=epoch, transactional=True)


def code(result):
    return result.error if isinstance(result, Rejected) else ErrorCode.NONE


def test_without_a_question_nothing_opens_a_transaction():
    partition = Partition(VERIFYING)
    assert code(partition.append(batch(0))) is ErrorCode.INVALID_TXN_STATE
    assert partition.leader.state.producer_states.first_unstable_offset() is None


def test_an_open_transaction_is_not_asked_about():
    partition = Partition(VERIFYING)
    guard = partition.leader.verification(P, 0, 0)
    assert isinstance(partition.append(batch(0), guard=guard), Appended)
    assert partition.leader.verification(P, 0, 1) is None
    assert isinstance(partition.append(batch(1)), Appended)


def test_an_open_transaction_of_an_older_epoch_is_asked_about():
    partition = Partition(VERIFYING)
    partition.append(batch(0), guard=partition.leader.verification(P, 0, 0))
    assert partition.leader.verification(P, 1, 0) is not None


def test_a_batch_does_not_join_a_transaction_of_an_older_epoch_whose_marker_was_lost():
    """KAFKA-20716. The abort that follows the refusal writes a marker, which ends the open transaction."""
    partition = Partition(VERIFYING)
    partition.append(batch(0), guard=partition.leader.verification(P, 0, 0))
    guard = partition.leader.verification(P, 1, 0, adds_partition=True)
    assert code(partition.append(batch(0, epoch=1), guard=guard)) is ErrorCode.TRANSACTION_ABORTABLE
    refusal = partition.leader.check_transactional(P, 1, guard)
    assert refusal is not None
    assert refusal.error is ErrorCode.TRANSACTION_ABORTABLE
    partition.mark(end_marker(P, committed=False, epoch=2), version=2)
    guard = partition.leader.verification(P, 2, 0, adds_partition=True)
    assert isinstance(partition.append(batch(0, epoch=2), guard=guard), Appended)
    assert [each.first_offset for each in partition.leader.aborted_in(0, 3)] == [0]
    assert partition.leader.state.producer_states.first_unstable_offset() == 2


def test_a_marker_in_between_takes_the_guard_away():
    partition = Partition(VERIFYING)
    guard = partition.leader.verification(P, 0, 0, adds_partition=True)
    partition.mark(end_marker(P, committed=False, epoch=1), version=2)
    assert code(partition.append(batch(0), guard=guard)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert code(partition.append(batch(0, epoch=1), guard=guard)) is ErrorCode.INVALID_TXN_STATE
    log = partition.leader.state
    assert log.producer_states.first_unstable_offset() in {None, log.log_end_offset - 1}, "of the marker at most"


def test_the_guard_is_looked_at_also_where_verification_is_off():
    """Producers of transaction version 2 are always verified, since that adds their partitions to the transaction."""
    partition = Partition(LogConfig(transaction_verification=False))
    assert partition.leader.verification(P, 0, 0) is None
    guard = partition.leader.verification(P, 0, 0, adds_partition=True)
    partition.mark(end_marker(P, committed=False))
    assert code(partition.append(batch(0), guard=guard)) is ErrorCode.INVALID_TXN_STATE


def test_batches_that_wait_for_the_same_answer_keep_their_order():
    partition = Partition(VERIFYING)
    guard = partition.leader.verification(P, 0, 7)
    assert partition.leader.verification(P, 0, 8) is guard
    assert code(partition.append(batch(8), guard=guard)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert isinstance(partition.append(batch(7), guard=guard), Appended)
    assert isinstance(partition.append(batch(8)), Appended)


def test_the_order_begins_anew_with_a_later_epoch():
    partition = Partition(VERIFYING)
    guard = partition.leader.verification(P, 0, 3)
    assert partition.leader.verification(P, 1, 0) is guard
    assert partition.leader.verification(P, 0, 9) is guard
    assert code(partition.append(batch(1, epoch=1), guard=guard)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert isinstance(partition.append(batch(0, epoch=1), guard=guard), Appended)


def test_a_superseded_producer_does_not_hold_up_its_successor():
    """Otherwise its verification would leave a sequence for which later batches would wait."""
    partition = Partition(VERIFYING)
    partition.append(batch(0, epoch=1), guard=partition.leader.verification(P, 1, 0))
    assert code(partition.leader.verification(P, 0, 0)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert isinstance(partition.append(batch(1, epoch=1)), Appended)


def test_a_producer_of_version_2_begins_with_sequence_0():
    partition = Partition(VERIFYING)
    guard = partition.leader.verification(P, 0, 4, adds_partition=True)
    assert code(partition.append(batch(4), guard=guard)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert partition.leader.verification(P, 0, 0, adds_partition=True) is guard
    assert isinstance(partition.append(batch(0), guard=guard), Appended)


def test_version_1_may_begin_anywhere_once_its_state_is_gone():
    partition = Partition(VERIFYING)
    assert isinstance(partition.append(batch(4), guard=partition.leader.verification(P, 0, 4)), Appended)


def test_a_retry_is_a_retry_though_others_wait():
    partition = Partition(VERIFYING)
    partition.append(batch(0), guard=partition.leader.verification(P, 0, 0))
    partition.mark(end_marker(P, committed=True))
    guard = partition.leader.verification(P, 0, 0)
    assert isinstance(partition.append(batch(0), guard=guard), Duplicate)


def test_the_guard_of_a_refused_batch_that_is_not_sent_again_expires():
    partition = Partition(LogConfig(transaction_verification=True, producer_id_expiration_ms=1000))
    guard = partition.leader.verification(P, 0, 0)
    assert partition.log.expire_producers(NOW_MS) is None
    assert partition.log.expire_producers(NOW_MS + 999) is None
    assert not partition.leader.is_overtaken(P, guard)
    assert partition.log.expire_producers(NOW_MS + 1000) is None
    assert partition.leader.is_overtaken(P, guard)
    assert code(partition.append(batch(0), guard=guard)) is ErrorCode.INVALID_TXN_STATE
    again = partition.leader.verification(P, 0, 0)
    assert isinstance(partition.append(batch(0), guard=again), Appended)
