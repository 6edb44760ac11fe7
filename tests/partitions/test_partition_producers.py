"""Idempotent and transactional producers: each line of the table at the top of partitions/producers.py."""

import pytest
from partition_fakes import NOW_MS, Partition, data_batch, end_marker, of_producer

from odradek.partitions.config import LogConfig, MessageTimestampType
from odradek.partitions.producers import BATCHES_KEPT, ProducerBatch, ProducerEntry, ProducerRowError
from odradek.partitions.results import Appended, AppendOrigin, Duplicate, Rejected
from odradek.wire.errors import ErrorCode

MAX_SEQUENCE = 2**31 - 1
P = 4001


def offsets(result: Appended | Duplicate | Rejected) -> tuple[str, int, int]:
    assert not isinstance(result, Rejected), result
    return type(result).__name__, result.base_offset, result.last_offset


def test_a_retry_is_answered_with_the_first_answer() -> None:
    partition = Partition()
    partition.append(data_batch(3))
    first = partition.append(of_producer(P, 0, 4))
    before = partition.log.snapshot()
    assert offsets(first) == ("Appended", 3, 6)
    assert partition.append(of_producer(P, 0, 4)) == Duplicate(3, 6, NOW_MS)
    assert partition.log.snapshot() == before


def test_a_retry_is_recognised_before_its_first_try_is_durable() -> None:
    partition = Partition()
    partition.append(of_producer(P, 0), commit=False)
    assert offsets(partition.append(of_producer(P, 0))) == ("Duplicate", 0, 0)
    assert partition.log.high_watermark == 0


def test_the_last_five_batches_are_recognised_and_no_more() -> None:
    partition = Partition()
    for sequence in range(0, 14, 2):
        partition.append(of_producer(P, sequence, 2))
    for sequence in range(4, 14, 2):
        assert offsets(partition.append(of_producer(P, sequence, 2))) == ("Duplicate", sequence, sequence + 1)
    for sequence in (0, 2):
        assert partition.append(of_producer(P, sequence, 2)).error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize(("sequence", "count"), [(0, 1), (0, 3), (1, 1), (3, 1), (5, 1), (MAX_SEQUENCE, 1)])
def test_another_range_than_the_next_or_a_remembered_one_is_out_of_order(sequence: int, count: int) -> None:
    partition = Partition()
    partition.append(of_producer(P, 0, 2))
    result = partition.append(of_producer(P, sequence, count))
    assert result.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert offsets(partition.append(of_producer(P, 2))) == ("Appended", 2, 2)


@pytest.mark.parametrize("sequence", [0, 1, 77, MAX_SEQUENCE])
@pytest.mark.parametrize("epoch", [0, 3])
def test_an_unknown_producer_may_begin_anywhere(sequence: int, epoch: int) -> None:
    partition = Partition()
    assert offsets(partition.append(of_producer(P, sequence, epoch=epoch))) == ("Appended", 0, 0)
    following = 0 if sequence == MAX_SEQUENCE else sequence + 1
    assert offsets(partition.append(of_producer(P, following, epoch=epoch))) == ("Appended", 1, 1)


def test_sequences_wrap_inside_a_batch() -> None:
    partition = Partition()
    partition.append(of_producer(P, MAX_SEQUENCE - 1, 4))
    assert offsets(partition.append(of_producer(P, MAX_SEQUENCE - 1, 4))) == ("Duplicate", 0, 3)
    assert partition.append(of_producer(P, 3)).error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert offsets(partition.append(of_producer(P, 2))) == ("Appended", 4, 4)


def test_an_older_epoch_is_fenced() -> None:
    partition = Partition()
    partition.append(of_producer(P, 0, epoch=2))
    for sequence in (0, 1):
        assert partition.append(of_producer(P, sequence, epoch=1)).error is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_new_epoch_begins_at_sequence_0_and_forgets_the_old_batches() -> None:
    partition = Partition()
    partition.append(of_producer(P, 0, epoch=1))
    assert partition.append(of_producer(P, 1, epoch=2)).error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert offsets(partition.append(of_producer(P, 0, epoch=2))) == ("Appended", 1, 1)
    assert len(partition.log.producers[P].batches) == 1
    assert partition.append(of_producer(P, 0, epoch=1)).error is ErrorCode.INVALID_PRODUCER_EPOCH


def test_producers_do_not_disturb_each_other() -> None:
    partition = Partition()
    for sequence in range(3):
        for producer_id in range(5):
            assert isinstance(partition.append(of_producer(producer_id, sequence)), Appended)
    assert sorted(partition.log.producers) == [0, 1, 2, 3, 4]


def test_coordinator_batches_are_judged_by_epoch_only() -> None:
    partition = Partition()
    coordinator = AppendOrigin.COORDINATOR
    assert isinstance(partition.append(of_producer(P, -1, epoch=1, transactional=True), coordinator), Appended)
    assert isinstance(partition.append(of_producer(P, -1, epoch=1, transactional=True), coordinator), Appended)
    result = partition.append(of_producer(P, -1, epoch=0, transactional=True), coordinator)
    assert result.error is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_retry_gets_the_log_append_time() -> None:
    partition = Partition(LogConfig(message_timestamp_type=MessageTimestampType.LOG_APPEND_TIME))
    partition.append(of_producer(P, 0, timestamps=[5]))
    assert partition.append(of_producer(P, 0, timestamps=[5]), now_ms=NOW_MS + 9) == Duplicate(0, 0, NOW_MS)


def test_idle_producers_expire_and_come_back_anywhere() -> None:
    partition = Partition(LogConfig(producer_id_expiration_ms=1000))
    partition.append(of_producer(P, 0))
    partition.append(of_producer(P + 1, 0, timestamps=[NOW_MS + 1]))
    assert partition.log.expire_producers(NOW_MS + 999) is None
    write = partition.log.expire_producers(NOW_MS + 1000)
    assert write is not None
    assert dict(write.producers) == {P: None}
    partition.keep(write)
    assert sorted(partition.store.producers) == [P + 1]
    assert isinstance(partition.append(of_producer(P, 42)), Appended)


def test_an_open_transaction_never_expires() -> None:
    partition = Partition(LogConfig(producer_id_expiration_ms=1000))
    partition.append(of_producer(P, 0, transactional=True))
    assert partition.log.expire_producers(NOW_MS + 10**9) is None
    partition.mark(end_marker(P, committed=True))
    assert partition.log.expire_producers(NOW_MS + 10**9) is not None


def test_a_restart_forgets_no_producer_however_old_its_timestamps() -> None:
    """A retry whose acknowledgement was lost in the restart is a duplicate, also of backfilled old records."""
    partition = Partition(LogConfig(producer_id_expiration_ms=1000))
    batch = of_producer(P, 0, timestamps=[NOW_MS - 10**9])
    partition.append(batch)
    again = partition.restored().append(batch, origin=AppendOrigin.CLIENT, now_ms=NOW_MS)
    assert isinstance(again, Duplicate)
    assert again.base_offset == 0


def test_producers_expired_while_the_broker_was_down_leave_the_store_too() -> None:
    partition = Partition(LogConfig(producer_id_expiration_ms=1000))
    partition.append(of_producer(P, 0))
    partition.append(of_producer(P + 1, 0))
    log = partition.restored().state
    write = log.expire_producers(NOW_MS + 1000)
    assert write is not None
    assert dict(write.producers) == {P: None, P + 1: None}
    assert log.expire_producers(NOW_MS + 1000) is None


def test_state_survives_a_restart() -> None:
    partition = Partition()
    for sequence in range(7):
        partition.append(of_producer(P, sequence))
    leader = partition.restored()
    retry = leader.append(of_producer(P, 3), origin=AppendOrigin.CLIENT, now_ms=NOW_MS)
    assert retry == Duplicate(3, 3, NOW_MS)
    beyond = leader.append(of_producer(P, 9), origin=AppendOrigin.CLIENT, now_ms=NOW_MS)
    assert beyond.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_rows_are_small_and_versioned() -> None:
    batch = ProducerBatch(MAX_SEQUENCE, 2**62, 2**31 - 1, -1)
    entry = ProducerEntry(2**15 - 1, 2**31 - 1, 2**62, 2**62, (batch,) * BATCHES_KEPT)
    row = entry.encode()
    assert len(row) == 24 + 24 * BATCHES_KEPT
    assert ProducerEntry.decode(row) == entry
    assert ProducerEntry.decode(ProducerEntry().encode()) == ProducerEntry()
    for bad in (b"", b"\x02" + row[1:], row[:-1], row + b"\0", row[:10]):
        with pytest.raises(ProducerRowError):
            ProducerEntry.decode(bad)


# Transactions


def test_a_plain_batch_inside_a_transaction_is_refused() -> None:
    partition = Partition()
    partition.append(of_producer(P, 0, transactional=True))
    assert partition.append(of_producer(P, 1)).error is ErrorCode.INVALID_TXN_STATE
    assert offsets(partition.append(of_producer(P, 1, transactional=True))) == ("Appended", 1, 1)


def test_the_last_stable_offset_waits_for_the_first_open_transaction() -> None:
    partition = Partition()
    log = partition.log
    partition.append(data_batch(2))
    partition.append(of_producer(1, 0, 2, transactional=True))
    partition.append(of_producer(2, 0, 2, transactional=True))
    assert (log.last_stable_offset, log.high_watermark) == (2, 6)
    partition.mark(end_marker(2, committed=True))
    assert (log.last_stable_offset, log.high_watermark) == (2, 7)
    partition.mark(end_marker(1, committed=False))
    assert (log.last_stable_offset, log.high_watermark) == (8, 8)


def test_a_decision_that_is_not_durable_holds_the_last_stable_offset() -> None:
    partition = Partition()
    log = partition.log
    partition.append(of_producer(1, 0, transactional=True), commit=False)
    partition.mark(end_marker(1, committed=True), commit=False)
    partition.append(data_batch(3), commit=False)
    stable = []
    for end in (1, 2, 5):
        partition.leader.durable(end)
        stable.append(log.last_stable_offset)
    assert stable == [0, 2, 5]


def test_an_aborted_transaction_is_listed_with_its_extent() -> None:
    partition = Partition()
    partition.append(of_producer(1, 0, transactional=True))
    partition.append(of_producer(2, 0, transactional=True))
    result = partition.mark(end_marker(2, committed=False))
    assert isinstance(result, Appended)
    (aborted,) = result.write.aborted
    assert (aborted.producer_id, aborted.first_offset, aborted.last_offset, aborted.last_stable_offset) == (2, 1, 2, 0)
    result = partition.mark(end_marker(1, committed=False))
    assert [(one.first_offset, one.last_offset, one.last_stable_offset) for one in result.write.aborted] == [(0, 3, 4)]
    assert partition.restored().aborted_in(0, 4) == partition.log.aborted_in(0, 4)


@pytest.mark.parametrize(
    ("fetch", "upper", "found"),
    [(0, 12, [1, 2, 3]), (0, 1, []), (0, 2, [1]), (3, 12, [1, 2, 3]), (4, 12, [2, 3]), (8, 12, [3]), (12, 12, []),
     (0, 5, [1]), (0, 6, [1, 2]), (4, 6, [2])],
)  # fmt: skip
def test_aborted_transactions_are_found_by_overlap(fetch: int, upper: int, found: list[int]) -> None:
    partition = Partition()
    for producer_id in (1, 2, 3):
        partition.append(data_batch())
        partition.append(of_producer(producer_id, 0, 2, transactional=True))
        partition.mark(end_marker(producer_id, committed=False))
    assert [aborted.producer_id for aborted in partition.log.aborted_in(fetch, upper)] == found


def test_a_marker_for_nothing_aborts_nothing() -> None:
    partition = Partition()
    result = partition.mark(end_marker(P, committed=False, epoch=3))
    assert isinstance(result, Appended)
    assert result.write.aborted == ()
    assert partition.log.producers[P].producer_epoch == 3


def test_a_stale_coordinator_is_fenced() -> None:
    partition = Partition()
    partition.mark(end_marker(P, committed=True, coordinator_epoch=5))
    assert isinstance(partition.mark(end_marker(P, committed=True, coordinator_epoch=5)), Appended)
    result = partition.mark(end_marker(P, committed=True, coordinator_epoch=4))
    assert result.error is ErrorCode.TRANSACTION_COORDINATOR_FENCED


@pytest.mark.parametrize(
    ("version", "epoch", "accepted"),
    [(0, 0, False), (0, 1, True), (0, 2, True), (2, 0, False), (2, 1, False), (2, 2, True)],
)
def test_the_epoch_of_a_marker_against_an_open_transaction(version: int, epoch: int, accepted: bool) -> None:
    partition = Partition()
    partition.append(of_producer(P, 0, epoch=1, transactional=True))
    result = partition.mark(end_marker(P, committed=True, epoch=epoch), version=version)
    assert isinstance(result, Appended) if accepted else result.error is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_marker_sent_again_after_its_answer_was_lost_is_taken() -> None:
    partition = Partition()
    partition.append(of_producer(P, 0, transactional=True))
    for _ in range(2):
        result = partition.mark(end_marker(P, committed=False, epoch=1), version=2)
        assert isinstance(result, Appended)
    assert len(partition.log.aborted_in(0, 9)) == 1


def test_after_a_marker_that_raised_the_epoch_sequences_begin_anew() -> None:
    partition = Partition()
    partition.append(of_producer(P, 0, 3, transactional=True))
    partition.mark(end_marker(P, committed=True, epoch=1), version=2)
    assert partition.append(of_producer(P, 3, transactional=True)).error is ErrorCode.INVALID_PRODUCER_EPOCH
    late = partition.append(of_producer(P, 3, epoch=1, transactional=True))
    assert late.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert offsets(partition.append(of_producer(P, 0, epoch=1, transactional=True))) == ("Appended", 4, 4)


def test_after_a_marker_of_the_same_epoch_sequences_go_on() -> None:
    partition = Partition()
    partition.append(of_producer(P, 0, 3, transactional=True))
    partition.mark(end_marker(P, committed=True))
    assert offsets(partition.append(of_producer(P, 0, 3, transactional=True))) == ("Duplicate", 0, 2)
    assert offsets(partition.append(of_producer(P, 3, transactional=True))) == ("Appended", 4, 4)


def test_an_open_transaction_survives_a_restart() -> None:
    partition = Partition()
    partition.append(data_batch(2))
    partition.append(of_producer(7, 0, transactional=True))
    partition.append(of_producer(3, 0, transactional=True))
    leader = partition.restored()
    log = leader.state
    assert log.last_stable_offset == 2
    leader.append(end_marker(7, committed=True), origin=AppendOrigin.COORDINATOR, now_ms=NOW_MS)
    leader.durable(log.log_end_offset)
    assert log.last_stable_offset == 3
