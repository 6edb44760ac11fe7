"""Imported batches: another log's, with their own offsets. Gaps stay, repetition changes nothing, transactions end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from partition_fakes import Partition, data_batch, end_marker, of_producer, patched

from odradek.partitions.config import CleanupPolicy, LogConfig
from odradek.partitions.follower import follow
from odradek.partitions.imports import MAX_BATCHES, ImportedBatch, in_writes, largest_producer_id, read_imported_batches
from odradek.partitions.model import LogSnapshot
from odradek.partitions.results import Appended, AppendOrigin, Rejected
from odradek.partitions.state import PartitionState
from odradek.partitions.truncation import ProducerRebuild
from odradek.wire.errors import ErrorCode
from odradek.wire.records.batch import assign_offsets, iter_headers


def at(offset: int, batch: memoryview) -> bytes:
    """The batch with another base offset and a leader epoch of its own cluster."""
    return b"".join(assign_offsets(batch, offset, 77))


def take(target: Partition, *batches: bytes, commit: bool = True) -> Appended | Rejected:
    records = memoryview(bytearray(b"".join(batches)))
    found = read_imported_batches(records, target.log.config)
    if isinstance(found, Rejected):
        return found
    for run in in_writes(found, target.log.config.segment_bytes):
        result = target.leader.take_imported(records, run)
        if isinstance(result, Rejected):
            return result
        target.keep(result.write)
        if commit:
            target.leader.durable(result.last_offset + 1)
    return result


def without_epoch(batch: bytes | bytearray | memoryview) -> bytes:
    return bytes(batch[:12]) + bytes(batch[16:])


def stored(target: Partition) -> list[bytes]:
    return [without_epoch(batch.data) for batch in target.store.batches]


# The resulting log, in any order of requests

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["plain", "one", "two", "commit one", "abort one", "commit two", "abort two", "gap"]),
        st.integers(1, 4),
    ),
    max_size=25,
)
PRODUCERS = {"one": 1, "two": 2}


def source_of(steps: list[tuple[str, int]]) -> list[bytes]:
    """A log of plain and transactional batches, markers and gaps."""
    batches: list[bytes] = []
    offset, sequences = 0, {1: 0, 2: 0}
    for what, count in steps:
        length = count
        if what == "gap":
            offset += count
            continue
        verb, _, name = what.rpartition(" ")
        if verb:
            batch, length = end_marker(PRODUCERS[name], committed=verb == "commit"), 1
        elif name == "plain":
            batch = data_batch(count)
        else:
            producer_id = PRODUCERS[name]
            batch = of_producer(producer_id, sequences[producer_id], count, transactional=True)
            sequences[producer_id] += count
        batches.append(at(offset, batch))
        offset += length
    return batches


@given(STEPS, st.data())
def test_any_cut_into_requests_with_any_repetition_gives_the_source(steps, data) -> None:
    source = source_of(steps)
    target, sent = Partition(epoch=3), 0
    while sent < len(source):
        begin = data.draw(st.integers(0, sent))
        end = data.draw(st.integers(begin + 1, len(source)))
        before = target.log.log_end_offset
        result = take(target, *source[begin:end])
        if begin < sent:
            assert isinstance(result, Rejected)
            assert result.error is ErrorCode.OFFSET_OUT_OF_RANGE
            assert target.log.log_end_offset == before
        else:
            assert isinstance(result, Appended)
            sent = end
    assert stored(target) == [without_epoch(batch) for batch in source]
    assert all(
        header.partition_leader_epoch == 3 for batch in target.store.batches for header in iter_headers(batch.data)
    )
    _tells_readers_what_a_follower_would(target, source)


def _tells_readers_what_a_follower_would(target: Partition, source: list[bytes]) -> None:
    follower = follow(PartitionState.restore(LogSnapshot(), LogConfig()), 77, leader_id=1)
    follower.append(memoryview(b"".join(source)))
    follower.leader_commits(follower.state.log_end_offset)
    follower.durable(follower.state.log_end_offset)
    assert target.log.log_end_offset == target.log.high_watermark == follower.state.log_end_offset
    assert target.log.last_stable_offset == follower.state.last_stable_offset
    assert target.log.aborted == follower.state.aborted
    restored = PartitionState.restore(target.store.load(), target.log.config)
    restored.mark_durable(restored.log_end_offset)
    restored.raise_high_watermark(restored.log_end_offset)
    assert restored.snapshot() == target.log.snapshot()
    assert restored.last_stable_offset == target.log.last_stable_offset


# After a change of the leader


def succeeded(target: Partition) -> Partition:
    """The leader of the next epoch, made from a follower that has all batches."""
    successor, end_offset = Partition(target.log.config), target.log.log_end_offset
    successor.log = PartitionState.restore(LogSnapshot(), target.log.config)
    follower = follow(successor.log, target.log.leader_epoch, leader_id=1)
    result = follower.append(memoryview(b"".join(bytes(batch.data) for batch in target.store.batches)))
    assert isinstance(result, Appended)
    successor.keep(result.write)
    successor.lead(target.log.leader_epoch + 1)
    successor.leader.durable(end_offset)
    return successor


@given(STEPS, st.data())
def test_new_leaders_continue_an_import_wherever_it_stands(steps, data) -> None:
    source = source_of(steps)
    target, sent = Partition(), 0
    while sent < len(source):
        end = data.draw(st.integers(sent + 1, len(source)))
        assert isinstance(take(target, *source[sent:end]), Appended)
        target, sent = succeeded(target), end
    _tells_readers_what_a_follower_would(target, source)


def test_later_requests_to_a_new_leader_may_have_gaps_in_the_sequences() -> None:
    target = Partition()
    take(target, at(0, of_producer(1, 0, transactional=True)))
    target = succeeded(target)
    take(target, at(1, of_producer(1, 1, transactional=True)))
    assert isinstance(take(target, at(9, of_producer(1, 7, transactional=True))), Appended)


@pytest.mark.parametrize(
    "imported",
    [
        of_producer(1, 4, epoch=3, transactional=True),
        of_producer(1, 2, epoch=2, transactional=True),
        of_producer(1, 2, epoch=4, transactional=True),
        end_marker(1, committed=False, epoch=2),
    ],
    ids=["a gap", "an earlier epoch", "a later epoch", "an earlier epoch's marker"],
)
def test_what_does_not_continue_a_transaction_exactly_is_refused_by_a_new_leader(imported: memoryview) -> None:
    target = Partition()
    take(target, at(0, of_producer(1, 0, 2, epoch=3, transactional=True)))
    result = take(succeeded(target), at(2, imported))
    assert isinstance(result, Rejected)
    assert result.error is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("imported", [of_producer(1, 2, transactional=True), end_marker(1, committed=False)])
def test_a_local_transaction_that_goes_on_at_a_new_leader_is_not_joined_or_ended(imported: memoryview) -> None:
    target = Partition(LogConfig(transaction_verification=False))
    target.append(of_producer(1, 0, transactional=True))
    target = succeeded(target)
    target.append(of_producer(1, 1, transactional=True))
    result = take(target, at(2, imported))
    assert isinstance(result, Rejected)
    assert result.error is ErrorCode.INVALID_TXN_STATE


# Producers of this cluster beside those of the other


def test_a_producer_with_an_imported_id_is_not_taken_for_the_other_s() -> None:
    target = Partition()
    take(target, at(0, of_producer(1, 0, 3, epoch=9)), at(3, of_producer(1, 3, 3, epoch=9)))
    for sequence in (3, 6):
        result = target.append(of_producer(1, sequence, 3))
        assert isinstance(result, Appended)
    assert target.log.log_end_offset == 12


@pytest.mark.parametrize("committed", [True, False])
def test_what_is_known_of_a_local_producer_outlives_an_imported_transaction_of_its_id(committed: bool) -> None:
    target = Partition()
    target.append(of_producer(1, 0, 2))
    known = target.log.producers[1]
    take(target, at(5, of_producer(1, 70, epoch=4, transactional=True)))
    assert target.log.last_stable_offset == 5
    refused = target.append(of_producer(1, 2))
    assert isinstance(refused, Rejected)
    assert refused.error is ErrorCode.INVALID_TXN_STATE
    take(target, at(6, end_marker(1, committed=committed, epoch=4)))
    assert target.log.last_stable_offset == 7
    assert target.log.producers[1] == known
    assert isinstance(target.append(of_producer(1, 2)), Appended)


@pytest.mark.parametrize("transactional", [True, False])
def test_a_follower_also_keeps_what_is_known_of_a_local_producer_of_a_later_epoch(transactional: bool) -> None:
    target = Partition()
    target.append(of_producer(1, 0, 2, epoch=5))
    known = target.log.producers[1]
    take(target, at(5, of_producer(1, 70, epoch=4, transactional=transactional)))
    assert succeeded(target).log.last_stable_offset == target.log.last_stable_offset == (5 if transactional else 6)
    take(target, at(6, end_marker(1, committed=False, epoch=4)))
    rebuild = ProducerRebuild()
    for batch in target.store.batches:
        rebuild.add(memoryview(batch.data))
    assert rebuild.rows() == {1: known.encode()}
    target = succeeded(target)
    assert (target.log.last_stable_offset, len(target.log.aborted)) == (7, transactional)
    assert target.log.producers[1] == known
    assert isinstance(target.append(of_producer(1, 2, epoch=5)), Appended)


def test_a_local_transaction_after_an_imported_one_of_a_later_epoch_can_be_ended_at_a_new_leader() -> None:
    target = Partition(LogConfig(transaction_verification=False))
    take(target, at(0, of_producer(1, 0, epoch=9, transactional=True)), at(1, end_marker(1, committed=True, epoch=9)))
    target.append(of_producer(1, 0, transactional=True))
    target = succeeded(target)
    assert isinstance(target.mark(end_marker(1, committed=True)), Appended)
    assert target.log.last_stable_offset == 4


def test_an_imported_transaction_leaves_nothing_but_its_outcome() -> None:
    target = Partition()
    take(target, at(0, of_producer(1, 0, transactional=True)), at(1, end_marker(1, committed=False)))
    assert target.store.producers == {}
    assert [(each.first_offset, each.last_offset) for each in target.log.aborted] == [(0, 1)]


@pytest.mark.parametrize("imported", [of_producer(1, 5, transactional=True), end_marker(1, committed=False)])
def test_a_local_transaction_is_not_joined_or_ended(imported: memoryview) -> None:
    target = Partition(LogConfig(transaction_verification=False))
    target.append(of_producer(1, 0, transactional=True))
    result = take(target, at(1, data_batch()), at(2, imported))
    assert isinstance(result, Rejected)
    assert result.error is ErrorCode.INVALID_TXN_STATE
    assert target.log.log_end_offset == 1
    assert isinstance(target.append(end_marker(1, committed=True), AppendOrigin.COORDINATOR), Appended)


def test_a_transaction_whose_begin_was_not_imported_is_no_transaction() -> None:
    target = Partition()
    take(target, at(7, end_marker(1, committed=False)))
    assert (target.log.last_stable_offset, target.log.aborted, target.store.producers) == (8, (), {})


# Refused imports

HUGE = 2**63 - 1


@pytest.mark.parametrize(
    ("records", "error"),
    [
        pytest.param(b"", ErrorCode.INVALID_RECORD, id="nothing"),
        pytest.param(at(0, data_batch(2))[:-1], ErrorCode.CORRUPT_MESSAGE, id="cut off"),
        pytest.param(at(0, data_batch(2)) + b"\0" * 10, ErrorCode.CORRUPT_MESSAGE, id="bytes behind"),
        pytest.param(at(1, data_batch(2)) + at(2, data_batch()), ErrorCode.INVALID_RECORD, id="overlapping"),
        pytest.param(at(-1, data_batch()), ErrorCode.INVALID_RECORD, id="below zero"),
        pytest.param(at(HUGE, data_batch()), ErrorCode.INVALID_RECORD, id="the last offset"),
        pytest.param(at(0, patched(data_batch(2), 57, 3, 4)), ErrorCode.INVALID_RECORD, id="more records than offsets"),
        pytest.param(at(0, patched(data_batch(2), 57, -1, 4)), ErrorCode.INVALID_RECORD, id="less than no record"),
        pytest.param(at(0, patched(data_batch(2), 23, -1, 4)), ErrorCode.INVALID_RECORD, id="a delta below zero"),
        pytest.param(at(0, patched(data_batch(), 21, 5, 2)), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, id="codec 5"),
        pytest.param(bytes(patched(data_batch(), 16, 1, 1)), ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, id="format 1"),
        pytest.param(
            at(0, patched(data_batch(), 65, 9, 1, fix_crc=False)), ErrorCode.CORRUPT_MESSAGE, id="a wrong checksum"
        ),
        pytest.param(at(0, data_batch(value=b"v" * 2000)), ErrorCode.RECORD_LIST_TOO_LARGE, id="beyond a segment"),
        pytest.param(at(0, patched(data_batch(), 21, 0x30, 2)), ErrorCode.CORRUPT_MESSAGE, id="no marker"),
    ],
)
def test_a_bad_request_changes_nothing(records: bytes, error: ErrorCode) -> None:
    target = Partition(LogConfig(segment_bytes=1500))
    result = take(target, records)
    assert isinstance(result, Rejected)
    assert result.error is error
    assert target.log.log_end_offset == 0


def test_an_empty_batch_keeps_its_offsets() -> None:
    """Compaction leaves an empty batch in place of a producer's last one; tools move the log end offset with one."""
    target = Partition()
    emptied = patched(data_batch(1)[:61], 57, 0, 4, fix_crc=False)
    emptied = patched(emptied, 8, 49, 4)
    assert isinstance(take(target, at(9, emptied)), Appended)
    assert target.log.high_watermark == 10


def test_bounds_that_the_other_cluster_has_judged_are_not_judged_again() -> None:
    target = Partition(
        LogConfig(
            max_message_bytes=70, message_timestamp_after_max_ms=0, cleanup_policy=frozenset({CleanupPolicy.COMPACT})
        )
    )
    assert isinstance(take(target, at(0, data_batch(9, keys=[None] * 9))), Appended)


def test_writes_are_cut_between_batches() -> None:
    records = memoryview(b"".join(at(offset, data_batch()) for offset in range(MAX_BATCHES + 1)))
    batches = read_imported_batches(records, LogConfig())
    assert isinstance(batches, list)
    assert [len(run) for run in in_writes(batches, 1 << 30)] == [MAX_BATCHES, 1]
    size_bytes = batches[0].header.size_bytes
    assert [len(run) for run in in_writes(batches[:7], 3 * size_bytes)] == [3, 3, 1]
    assert [len(run) for run in in_writes(batches[:2], 1)] == [1, 1]


def test_the_largest_producer_id_counts() -> None:
    headers = [next(iter_headers(batch)) for batch in (of_producer(4, 0), of_producer(9, 0), data_batch())]
    assert largest_producer_id([ImportedBatch(header, None) for header in headers]) == 9
    assert largest_producer_id([ImportedBatch(headers[2], None)]) == -1


def test_offsets_above_the_largest_are_refused_with_their_reason() -> None:
    target = Partition()
    batch = at(2**62, data_batch(2))
    refused = take(target, batch)
    assert isinstance(refused, Rejected)
    assert refused.error is ErrorCode.INVALID_RECORD
    assert f"the largest offset is {2**62}" in refused.message
