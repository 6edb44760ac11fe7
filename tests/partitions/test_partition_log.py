"""One log: offsets, high watermark and last stable offset, fetches, ListOffsets, epochs, log start offset."""

import pytest
from partition_fakes import NOW_MS, Partition, data_batch, end_marker, of_producer, patched

from odradek.partitions import offsets
from odradek.partitions.config import LogConfig, MessageTimestampType
from odradek.partitions.follower import follow
from odradek.partitions.in_sync import Membership
from odradek.partitions.leader import FollowerFetch, lead
from odradek.partitions.model import EpochStart, LogSnapshot, LogWrite
from odradek.partitions.results import (
    NO_LEADER_EPOCH,
    OFFSET_NOT_FOUND,
    Appended,
    AppendOrigin,
    EpochEnd,
    FetchPlan,
    Isolation,
    NeedsScan,
    OffsetFound,
    Rejected,
)
from odradek.partitions.state import PartitionState
from odradek.wire.errors import ErrorCode
from odradek.wire.records.batch import Codec, assign_offsets

ALL = Isolation.READ_UNCOMMITTED
STABLE = Isolation.READ_COMMITTED


def plan(partition: Partition, offset: int, isolation: Isolation = ALL, **more) -> FetchPlan:
    result = partition.leader.fetch(offset, max_bytes=1000, isolation=isolation, **more)
    assert isinstance(result, FetchPlan), result
    return result


def refusal(partition: Partition, offset: int, **more) -> ErrorCode:
    result = partition.leader.fetch(offset, max_bytes=1000, isolation=ALL, **more)
    assert isinstance(result, Rejected), result
    return result.error


# Appending and durability


def test_offsets_run_on_without_gaps() -> None:
    partition = Partition()
    for start, count in ((0, 1), (1, 5), (6, 2)):
        result = partition.append(data_batch(count), commit=False)
        assert isinstance(result, Appended)
        assert (result.base_offset, result.last_offset) == (start, start + count - 1)
    assert partition.log.log_end_offset == 8


def test_nothing_is_visible_before_it_is_durable() -> None:
    partition = Partition()
    partition.append(data_batch(3), commit=False)
    partition.append(data_batch(2), commit=False)
    log, leader = partition.log, partition.leader
    assert (log.high_watermark, log.last_stable_offset, log.durable_end_offset, log.log_end_offset) == (0, 0, 0, 5)
    assert plan(partition, 0).is_empty
    assert leader.durable(3)
    assert (log.high_watermark, plan(partition, 0).end) == (3, 3)
    assert not leader.durable(3)
    assert not leader.durable(1)
    assert log.high_watermark == 3
    assert leader.durable(5)


def test_committing_what_was_never_assigned_is_our_bug() -> None:
    with pytest.raises(AssertionError):
        Partition().leader.durable(1)


def test_what_is_durable_is_committed_when_every_in_sync_replica_has_it() -> None:
    log = PartitionState.restore(LogSnapshot(log_end_offset=9), LogConfig())
    leader, _ = lead(log, 1, Membership(1, (1, 2, 3), (1, 2, 3), 0))

    def fetches(broker_id: int, offset: int) -> bool:
        follower = FollowerFetch(broker_id, 0, 0)
        plan = leader.plan_follower_fetch(
            follower, offset, max_bytes=1, current_leader_epoch=1, last_fetched_epoch=NO_LEADER_EPOCH
        )
        assert isinstance(plan, FetchPlan)
        return leader.record_fetch(follower, plan, 0)[0]

    assert (log.durable_end_offset, log.high_watermark) == (9, 0)
    moved = [fetches(2, 7), fetches(3, 5), fetches(3, 8)]
    assert (moved, log.high_watermark) == ([False, True, True], 7)
    assert fetches(2, 9)
    assert fetches(3, 9)
    assert log.high_watermark == 9, "this replica has no more"
    assert not fetches(3, 4)
    assert log.high_watermark == 9, "it never moves back"


def test_a_restored_log_is_committed_only_by_a_role() -> None:
    log = PartitionState.restore(LogSnapshot(log_start_offset=2, log_end_offset=9), LogConfig())
    assert (log.durable_end_offset, log.high_watermark) == (9, 2)
    lead(log, 0)
    assert log.high_watermark == 9


def test_after_a_failed_commit_the_log_is_restored_without_it() -> None:
    partition = Partition()
    partition.append(of_producer(1, 0))
    lost = partition.leader.append(of_producer(1, 1), origin=AppendOrigin.CLIENT, now_ms=NOW_MS)
    assert isinstance(lost, Appended)
    leader = partition.restored()
    again = leader.append(of_producer(1, 1), origin=AppendOrigin.CLIENT, now_ms=NOW_MS)
    assert isinstance(again, Appended)
    assert again.base_offset == 1


def test_a_batch_behind_a_producer_s_lost_first_one_is_not_taken_until_that_comes_again() -> None:
    partition = Partition()
    assert isinstance(partition.leader.append(of_producer(1, 0), origin=AppendOrigin.CLIENT, now_ms=NOW_MS), Appended)
    leader = partition.restored()
    leader.state.await_first_batch_retry(partition.log.producers)
    behind = leader.append(of_producer(1, 1), origin=AppendOrigin.CLIENT, now_ms=NOW_MS)
    assert isinstance(behind, Rejected)
    assert behind.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    for sequence in (0, 1):
        again = leader.append(of_producer(1, sequence), origin=AppendOrigin.CLIENT, now_ms=NOW_MS)
        assert isinstance(again, Appended)
        assert again.base_offset == sequence


def test_a_producer_that_was_unknown_before_its_lost_batch_may_send_it_again() -> None:
    partition = Partition()
    assert isinstance(partition.leader.append(of_producer(1, 7), origin=AppendOrigin.CLIENT, now_ms=NOW_MS), Appended)
    leader = partition.restored()
    leader.state.await_first_batch_retry(partition.log.producers)
    assert isinstance(leader.append(of_producer(1, 7), origin=AppendOrigin.CLIENT, now_ms=NOW_MS), Appended)


def test_an_empty_log_restores() -> None:
    log = PartitionState.restore(LogSnapshot(), LogConfig())
    assert (log.leader_epoch, log.log_start_offset, log.high_watermark) == (-1, 0, 0)
    assert log.snapshot() == LogSnapshot(aborted=(), epochs=[], producers={})


# Epochs


def test_each_epoch_is_noted_once_with_its_first_offset() -> None:
    partition = Partition(epoch=3)
    assert lead(partition.log, 3)[1] is None
    partition.append(data_batch(4))
    assert lead(partition.log, 5)[1] == LogWrite(epochs=(EpochStart(5, 4),))
    assert partition.log.leader_epoch == 5


def test_an_older_epoch_cannot_lead() -> None:
    partition = Partition(epoch=3)
    with pytest.raises(AssertionError):
        partition.lead(2)
    with pytest.raises(AssertionError):
        follow(partition.log, 2, leader_id=1)


@pytest.mark.parametrize(
    ("current", "error"),
    [(-1, None), (3, None), (2, ErrorCode.FENCED_LEADER_EPOCH), (4, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_every_request_is_checked_for_its_epoch(current: int, error: ErrorCode | None) -> None:
    leader = Partition(epoch=3).leader
    answers = [
        leader.fetch(0, max_bytes=1, isolation=ALL, current_leader_epoch=current),
        leader.list_offset(-1, ALL, current),
        leader.list_offset(12345, STABLE, current),
        leader.epoch_end(3, current),
        leader.append(data_batch(), origin=AppendOrigin.COORDINATOR, now_ms=NOW_MS, leader_epoch=current),
    ]
    assert [answer.error if isinstance(answer, Rejected) else None for answer in answers] == [error] * 5


def test_epoch_end_is_what_is_durable() -> None:
    partition = Partition(epoch=1)
    partition.append(data_batch(3))
    partition.lead(4)
    partition.append(data_batch(2))
    partition.append(data_batch(2), commit=False)
    ends = {epoch: partition.leader.epoch_end(epoch) for epoch in (0, 1, 2, 4, 5)}
    assert ends == {0: EpochEnd(0, 0), 1: EpochEnd(1, 3), 2: EpochEnd(1, 3), 4: EpochEnd(4, 5), 5: EpochEnd(-1, -1)}


# Fetch


@pytest.mark.parametrize(("offset", "answered"), [(-1, False), (0, False), (2, True), (5, True), (7, True), (8, False)])
def test_fetch_is_bounded_by_log_start_and_log_end(offset: int, answered: bool) -> None:
    partition = Partition()
    partition.append(data_batch(5))
    partition.append(data_batch(2), commit=False)
    partition.keep(partition.log.move_log_start(2))
    if answered:
        assert plan(partition, offset) == FetchPlan(offset, 5, 1000, 5, 5, 2)
    else:
        assert refusal(partition, offset) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_isolation_bounds_a_fetch() -> None:
    partition = Partition()
    partition.append(data_batch(2))
    partition.append(of_producer(1, 0, transactional=True))
    ends = {isolation: plan(partition, 0, isolation).end for isolation in Isolation}
    assert ends == {Isolation.READ_UNCOMMITTED: 3, Isolation.READ_COMMITTED: 2, Isolation.LOG_END: 3}


@pytest.mark.parametrize(
    ("offset", "last_fetched", "diverging"),
    [(3, 1, None), (5, 4, None), (4, 4, None), (4, 1, (1, 3)), (3, 2, (1, 3)), (0, 1, None)],
)
def test_a_reader_with_another_history_is_told_where_to_truncate(
    offset: int, last_fetched: int, diverging: tuple[int, int] | None
) -> None:
    partition = Partition(epoch=1)
    partition.append(data_batch(3))
    partition.lead(4)
    partition.append(data_batch(2))
    found = plan(partition, offset, last_fetched_epoch=last_fetched)
    assert found.diverging == (None if diverging is None else EpochEnd(*diverging))
    assert found.is_empty is (diverging is not None or offset == 5)


def test_a_reader_from_an_unknown_epoch_is_out_of_range() -> None:
    assert refusal(Partition(epoch=1), 0, last_fetched_epoch=7) is ErrorCode.OFFSET_OUT_OF_RANGE


# ListOffsets


def lookup(partition: Partition, timestamp_ms: int, isolation: Isolation = ALL) -> OffsetFound | Rejected:
    """Looks up an offset as the gateway does, with a store that reads batch by batch."""
    answer = partition.leader.list_offset(timestamp_ms, isolation)
    if not isinstance(answer, NeedsScan):
        return answer
    batches = partition.store.batches
    if answer.of_max_timestamp:
        newest = max((batch.max_timestamp_ms for batch in batches), default=-1)
        named = [batch for batch in batches if batch.max_timestamp_ms == newest][:1]
    else:
        named = [batch for batch in batches if batch.max_timestamp_ms >= timestamp_ms][:1]
    chunks = [memoryview(batch.data) for batch in batches if named and batch.base_offset >= named[0].base_offset]
    for chunk in chunks:
        found = offsets.offset_in_batches([chunk], answer)
        if found is not None:
            return found
    return answer.absent


def test_special_timestamps() -> None:
    partition = Partition(epoch=2)
    assert lookup(partition, offsets.EARLIEST_TIMESTAMP) == OffsetFound(0, -1, 2)
    assert lookup(partition, offsets.LATEST_TIMESTAMP) == OffsetFound(0, -1, 2)
    assert lookup(partition, offsets.MAX_TIMESTAMP) == OFFSET_NOT_FOUND
    partition.append(data_batch(5))
    partition.lead(6)
    partition.append(of_producer(1, 0, 2, transactional=True))
    partition.keep(partition.log.move_log_start(3))
    assert lookup(partition, offsets.EARLIEST_TIMESTAMP) == OffsetFound(3, -1, 2)
    assert lookup(partition, offsets.EARLIEST_LOCAL_TIMESTAMP) == OffsetFound(3, -1, 2)
    assert lookup(partition, offsets.LATEST_TIMESTAMP) == OffsetFound(7, -1, 6)
    assert lookup(partition, offsets.LATEST_TIMESTAMP, STABLE) == OffsetFound(5, -1, 6)
    assert lookup(partition, offsets.LATEST_TIERED_TIMESTAMP) == OFFSET_NOT_FOUND
    assert lookup(partition, offsets.EARLIEST_PENDING_UPLOAD_TIMESTAMP) == OFFSET_NOT_FOUND
    partition.keep(partition.log.move_log_start(7))
    assert lookup(partition, offsets.EARLIEST_TIMESTAMP) == OffsetFound(7, -1, 6)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_by_timestamp_the_first_record_not_older_is_found(codec: Codec) -> None:
    partition = Partition(epoch=4)
    partition.append(data_batch(timestamps=[100, 300, 200], codec=codec))
    partition.append(data_batch(timestamps=[150, 250], codec=codec))
    partition.append(data_batch(timestamps=[400], codec=codec))
    expected = {0: (0, 100), 100: (0, 100), 101: (1, 300), 300: (1, 300), 301: (5, 400), 400: (5, 400)}
    for timestamp, (offset, found_ms) in expected.items():
        assert lookup(partition, timestamp) == OffsetFound(offset, found_ms, 4)
    assert lookup(partition, 401) == OFFSET_NOT_FOUND


def test_by_timestamp_records_below_the_log_start_do_not_count() -> None:
    partition = Partition()
    partition.append(data_batch(timestamps=[100, 200, 120]))
    partition.append(data_batch(timestamps=[150, 160]))
    partition.keep(partition.log.move_log_start(2))
    assert lookup(partition, 90) == OffsetFound(2, 120, 0)
    assert lookup(partition, 130) == OffsetFound(3, 150, 0)


@pytest.mark.parametrize(("start", "found"), [(1, OffsetFound(1, 300, 0)), (2, OffsetFound(3, 120, 0))])
def test_the_max_timestamp_is_of_a_record_that_can_be_read(start: int, found: OffsetFound) -> None:
    partition = Partition()
    partition.append(data_batch(timestamps=[100, 300, 110, 120, 120]))
    partition.append(data_batch(timestamps=[90]))
    partition.keep(partition.log.move_log_start(start))
    assert lookup(partition, offsets.MAX_TIMESTAMP) == found


def test_the_max_timestamp_is_of_a_later_batch_if_no_record_of_the_first_can_be_read() -> None:
    compacted = patched(data_batch(timestamps=[300]), 23, 4, 4)  # the records at offsets 1 to 4 were removed
    later = b"".join(assign_offsets(data_batch(timestamps=[90]), 5, 0))
    scan = NeedsScan(offsets.MAX_TIMESTAMP, of_max_timestamp=True, start_offset=2, limit_offset=6)
    chunk = memoryview(bytes(compacted) + later)
    assert offsets.offset_in_batches([chunk], scan) == OffsetFound(5, 90, 0)


def test_by_timestamp_nothing_beyond_what_the_reader_may_see() -> None:
    partition = Partition()
    partition.append(data_batch(timestamps=[100]))
    partition.append(of_producer(1, 0, timestamps=[200], transactional=True))
    partition.append(data_batch(timestamps=[300]), commit=False)
    assert lookup(partition, 150) == OffsetFound(1, 200, 0)
    assert lookup(partition, 150, STABLE) == OFFSET_NOT_FOUND
    assert lookup(partition, 250) == OFFSET_NOT_FOUND


def test_the_largest_timestamp_is_the_first_record_that_has_it() -> None:
    partition = Partition(epoch=1)
    partition.append(data_batch(timestamps=[100, 500, 500, 20]))
    partition.append(data_batch(timestamps=[500, 7]))
    assert lookup(partition, offsets.MAX_TIMESTAMP) == OffsetFound(1, 500, 1)


def test_with_log_append_time_every_record_has_the_batchs_time() -> None:
    partition = Partition(LogConfig(message_timestamp_type=MessageTimestampType.LOG_APPEND_TIME))
    partition.append(data_batch(timestamps=[1, 2]), now_ms=1000)
    partition.append(data_batch(timestamps=[9, 9]), now_ms=2000)
    assert lookup(partition, 1000) == OffsetFound(0, 1000, 0)
    assert lookup(partition, 1001) == OffsetFound(2, 2000, 0)
    assert lookup(partition, offsets.MAX_TIMESTAMP) == OffsetFound(2, 2000, 0)


def test_a_new_leader_whose_high_watermark_lags_does_not_answer_latest() -> None:
    partition = Partition(epoch=0)
    partition.append(data_batch(timestamps=[100]))
    partition.append(data_batch(3, timestamps=[200] * 3), commit=False)
    partition.lead(1)
    assert lookup(partition, offsets.LATEST_TIMESTAMP).error is ErrorCode.OFFSET_NOT_AVAILABLE
    assert lookup(partition, 150).error is ErrorCode.OFFSET_NOT_AVAILABLE
    assert lookup(partition, 100) == OffsetFound(0, 100, 0)
    assert lookup(partition, offsets.EARLIEST_TIMESTAMP) == OffsetFound(0, -1, 0)
    assert isinstance(partition.leader.list_offset(offsets.LATEST_TIMESTAMP, Isolation.LOG_END), OffsetFound)
    partition.leader.durable(4)
    assert lookup(partition, offsets.LATEST_TIMESTAMP) == OffsetFound(4, -1, 1)


# The log start offset


def test_the_log_start_moves_forward_only_and_not_beyond_the_high_watermark() -> None:
    partition = Partition()
    partition.append(data_batch(5))
    partition.append(data_batch(5), commit=False)
    log = partition.log
    assert log.move_log_start(3) == LogWrite(log_start_offset=3)
    assert log.move_log_start(2) == LogWrite()
    assert log.move_log_start(6).error is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.move_log_start(-2).error is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.move_log_start(-1) == LogWrite(log_start_offset=5)
    assert log.log_start_offset == 5


def test_a_log_emptied_by_delete_records_restores_at_its_start() -> None:
    partition = Partition(epoch=2)
    partition.append(of_producer(1, 0, 5))
    partition.keep(partition.log.move_log_start(-1))
    partition.store.batches.clear()
    log = partition.restored().state
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (5, 5, 5)
    assert log.snapshot() == partition.log.snapshot()


def test_aborted_transactions_below_the_log_start_are_forgotten() -> None:
    partition = Partition()
    for producer_id in (1, 2):
        partition.append(of_producer(producer_id, 0, transactional=True))
        partition.mark(end_marker(producer_id, committed=False))
    partition.keep(partition.log.move_log_start(2))
    assert [one.producer_id for one in partition.log.snapshot().aborted] == [2]
    assert partition.restored().state.snapshot() == partition.log.snapshot()
