"""Mistakes that break clients and brokers: one test per trap, numbered as in the project's list of protocol traps."""

import pytest
from partition_fakes import NOW_MS, Partition, data_batch, end_marker, of_producer, patched

from odradek.partitions.config import CleanupPolicy, LogConfig, MessageTimestampType
from odradek.partitions.offsets import LATEST_TIMESTAMP
from odradek.partitions.results import Appended, AppendOrigin, FetchPlan, Isolation, OffsetFound, Rejected
from odradek.wire.errors import ErrorCode
from odradek.wire.records.batch import CONTROL_FLAG, TRANSACTIONAL_FLAG, Codec, check_crc, parse_header


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (memoryview(bytes(data_batch()) * 2), ErrorCode.INVALID_RECORD),
        (patched(data_batch(), 16, 1, 1), ErrorCode.INVALID_RECORD),
        (data_batch(codec=Codec.ZSTD), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (patched(data_batch(2), 23, 5, 4), ErrorCode.INVALID_RECORD),
        (patched(patched(data_batch(), 23, -1, 4), 57, 0, 4), ErrorCode.INVALID_RECORD),
        (patched(data_batch(), 22, CONTROL_FLAG, 1), ErrorCode.INVALID_RECORD),
        (of_producer(1, -1), ErrorCode.INVALID_RECORD),
    ],
)
def test_trap_11_batch_checks_need_no_decompression(records: memoryview, error: ErrorCode) -> None:
    result = Partition().append(records, api_version=6)
    assert isinstance(result, Rejected)
    assert result.error is error


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_trap_11_compressed_records_are_never_opened(codec: Codec) -> None:
    nonsense = patched(data_batch(3, codec=codec), 65, 0, 4)
    assert isinstance(Partition().append(nonsense), Appended)


def test_trap_12_offset_and_epoch_are_outside_the_checksum_and_append_time_is_inside() -> None:
    stored = {}
    for kind in MessageTimestampType:
        records = data_batch(timestamps=[5])
        before = parse_header(records)
        partition = Partition(LogConfig(message_timestamp_type=kind), epoch=9)
        partition.append(records)
        after = parse_header(records)
        check_crc(records, after)
        assert (after.base_offset, after.partition_leader_epoch) == (0, 9)
        stored[kind] = after.crc == before.crc
    assert stored == {MessageTimestampType.CREATE_TIME: True, MessageTimestampType.LOG_APPEND_TIME: False}


def test_trap_14_markers_and_aborted_transactions() -> None:
    partition = Partition()
    partition.append(of_producer(7, 0, transactional=True))
    marker = end_marker(7, committed=False)
    assert marker[21:23] == bytes([0, TRANSACTIONAL_FLAG | CONTROL_FLAG])
    latest = [partition.leader.list_offset(LATEST_TIMESTAMP, Isolation(isolation)) for isolation in (0, 1)]
    assert latest == [OffsetFound(1, -1, 0), OffsetFound(0, -1, 0)]
    partition.mark(marker)
    plain = partition.leader.fetch(0, max_bytes=1, isolation=Isolation.READ_UNCOMMITTED)
    stable = partition.leader.fetch(0, max_bytes=1, isolation=Isolation.READ_COMMITTED)
    assert isinstance(plain, FetchPlan)
    assert isinstance(stable, FetchPlan)
    assert plain.aborted is None
    assert [(one.producer_id, one.first_offset) for one in partition.leader.aborted_in(0, 3)] == [(7, 0)]
    assert stable.aborted is True


def test_trap_14_without_aborted_transactions_the_list_is_empty_not_null() -> None:
    plan = Partition().leader.fetch(0, max_bytes=1, isolation=Isolation.READ_COMMITTED)
    assert isinstance(plan, FetchPlan)
    assert plan.aborted is False


@pytest.mark.parametrize(
    ("epoch", "error"),
    [(-1, None), (4, ErrorCode.FENCED_LEADER_EPOCH), (5, None), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_trap_16_epochs_are_checked_unless_minus_one(epoch: int, error: ErrorCode | None) -> None:
    assert (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH) == (74, 75)
    answer = Partition(epoch=5).leader.fetch(
        0, max_bytes=1, isolation=Isolation.READ_UNCOMMITTED, current_leader_epoch=epoch
    )
    assert (answer.error if isinstance(answer, Rejected) else None) is error


def test_trap_21_compacted_topics_refuse_keyless_records_and_max_message_bytes_holds() -> None:
    compacted = Partition(LogConfig(cleanup_policy=frozenset({CleanupPolicy.COMPACT, CleanupPolicy.DELETE})))
    keyless = compacted.append(data_batch(timestamps=[NOW_MS], keys=[None]))
    assert isinstance(keyless, Rejected)
    assert (keyless.error, [index for index, _ in keyless.record_errors]) == (ErrorCode.INVALID_RECORD, [0])
    assert isinstance(compacted.append(end_marker(1, committed=True), AppendOrigin.COORDINATOR), Appended)
    large = Partition(LogConfig(max_message_bytes=100)).append(data_batch(value=b"x" * 100))
    assert isinstance(large, Rejected)
    assert large.error is ErrorCode.MESSAGE_TOO_LARGE
