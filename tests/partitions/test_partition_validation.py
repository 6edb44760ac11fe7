"""All ways in which a client's batch can be invalid, and Kafka's answer to each."""

import tracemalloc

import pytest
from partition_fakes import NOW_MS, Partition, data_batch, end_marker, of_producer, patched

from odradek.partitions.config import CleanupPolicy, LogConfig, MessageTimestampType
from odradek.partitions.model import MAX_RECORDS_WITH_ROWS
from odradek.partitions.results import Appended, AppendOrigin, Rejected
from odradek.partitions.validation import (
    FEW_RECORDS,
    check_client_batch,
    is_short,
    takes_long,
)
from odradek.wire.errors import ErrorCode
from odradek.wire.records.batch import CONTROL_FLAG, LOG_APPEND_TIME_FLAG, BatchHeader, Codec, check_crc, parse_header
from odradek.wire.records.builder import SimpleRecord, build_batch
from odradek.wire.records.reader import read_records

HOUR_MS = 3_600_000
COMPACTED = LogConfig(cleanup_policy=frozenset({CleanupPolicy.COMPACT}))
STAMPED = LogConfig(message_timestamp_type=MessageTimestampType.LOG_APPEND_TIME)


def cut(batch: memoryview, size: int) -> memoryview:
    return batch[:size]


def joined(*parts: bytes | memoryview) -> memoryview:
    return memoryview(bytearray(b"".join(parts)))


def legacy(magic: int) -> memoryview:
    """A message of the old format; its checksum is not verified.

    The fields are offset, size, crc, magic, attributes, (timestamp), key, value.
    """
    body = bytes(4) + bytes([magic]) + bytes(25)
    return memoryview(bytearray(bytes(8) + len(body).to_bytes(4, "big") + body))


BAD_BATCHES = {
    "nothing": (memoryview(bytearray()), ErrorCode.INVALID_RECORD),
    "too short for a length": (cut(data_batch(), 11), ErrorCode.INVALID_RECORD),
    "too short for a magic": (cut(data_batch(), 16), ErrorCode.INVALID_RECORD),
    "cut off in the header": (cut(data_batch(), 40), ErrorCode.INVALID_RECORD),
    "cut off in the records": (cut(data_batch(), 65), ErrorCode.INVALID_RECORD),
    "length far beyond the end": (patched(data_batch(), 8, 2**31 - 1, 4), ErrorCode.INVALID_RECORD),
    "negative length": (patched(data_batch(), 8, -1, 4), ErrorCode.CORRUPT_MESSAGE),
    "length zero": (patched(data_batch(), 8, 0, 4), ErrorCode.CORRUPT_MESSAGE),
    "length below any message": (patched(data_batch(), 8, 13, 4), ErrorCode.CORRUPT_MESSAGE),
    "length below a v2 header": (patched(data_batch(), 8, 48, 4), ErrorCode.CORRUPT_MESSAGE),
    "magic 0": (legacy(0), ErrorCode.INVALID_RECORD),
    "magic 1": (legacy(1), ErrorCode.INVALID_RECORD),
    "magic 3": (patched(data_batch(), 16, 3, 1), ErrorCode.CORRUPT_MESSAGE),
    "magic -1": (patched(data_batch(), 16, -1, 1), ErrorCode.CORRUPT_MESSAGE),
    "two batches": (joined(data_batch(), data_batch()), ErrorCode.INVALID_RECORD),
    "a batch and an old message": (joined(data_batch(), legacy(1)), ErrorCode.INVALID_RECORD),
    "a batch and zeros": (joined(data_batch(), bytes(12)), ErrorCode.CORRUPT_MESSAGE),
    "base offset": (data_batch(base_offset=5), ErrorCode.INVALID_RECORD),
    "wrong checksum": (patched(data_batch(), 60, 9, 1, fix_crc=False), ErrorCode.CORRUPT_MESSAGE),
    "codec 5": (patched(data_batch(), 22, 5, 1), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "codec 7": (patched(data_batch(), 22, 7, 1), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "count 0": (patched(data_batch(), 57, 0, 4), ErrorCode.INVALID_RECORD),
    "count -1": (patched(data_batch(), 57, -1, 4), ErrorCode.INVALID_RECORD),
    "count above the offsets": (patched(data_batch(), 57, 2, 4), ErrorCode.INVALID_RECORD),
    "offsets above the count": (patched(data_batch(), 23, 9, 4), ErrorCode.INVALID_RECORD),
    "negative last offset delta": (patched(patched(data_batch(), 23, -1, 4), 57, 0, 4), ErrorCode.INVALID_RECORD),
    "control": (patched(data_batch(), 22, CONTROL_FLAG, 1), ErrorCode.INVALID_RECORD),
    "a transaction marker": (end_marker(1, committed=True), ErrorCode.INVALID_RECORD),
    "producer without a sequence": (of_producer(1, -1), ErrorCode.INVALID_RECORD),
    "producer with a negative sequence": (of_producer(1, -7), ErrorCode.INVALID_RECORD),
    "log append time": (patched(data_batch(), 22, LOG_APPEND_TIME_FLAG, 1), ErrorCode.INVALID_TIMESTAMP),
    "too far in the future": (data_batch(timestamps=[NOW_MS + HOUR_MS + 1]), ErrorCode.INVALID_TIMESTAMP),
    "claims the future": (
        patched(data_batch(), 35, NOW_MS + 2 * HOUR_MS, 8),
        ErrorCode.INVALID_TIMESTAMP,
    ),
}


@pytest.mark.parametrize("name", BAD_BATCHES)
def test_a_bad_batch_is_refused_and_nothing_changes(name: str) -> None:
    records, error = BAD_BATCHES[name]
    partition = Partition()
    before, bytes_before = partition.log.snapshot(), bytes(records)
    result = partition.append(records)
    assert isinstance(result, Rejected)
    assert result.error is error
    assert result.message
    assert partition.log.snapshot() == before
    assert bytes(records) == bytes_before


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_is_taken_unread(codec: Codec) -> None:
    partition = Partition()
    result = partition.append(data_batch(3, codec=codec))
    assert isinstance(result, Appended)
    assert (result.base_offset, result.last_offset, result.log_append_time_ms) == (0, 2, -1)


@pytest.mark.parametrize(("version", "accepted"), [(3, False), (6, False), (7, True), (9, True), (13, True)])
def test_zstd_needs_produce_7(version: int, accepted: bool) -> None:
    result = Partition().append(data_batch(codec=Codec.ZSTD), api_version=version)
    assert isinstance(result, Appended) is accepted
    if isinstance(result, Rejected):
        assert result.error is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_the_version_is_judged_before_the_bytes() -> None:
    records = patched(data_batch(codec=Codec.ZSTD), 60, 9, 1, fix_crc=False)
    assert Partition().append(records, api_version=6).error is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("rest", [b"\0" * 11, bytes(8) + (100).to_bytes(4, "big"), bytes(data_batch())[:-1]])
def test_a_partial_batch_behind_the_first_is_ignored(rest: bytes) -> None:
    whole = data_batch()
    result = Partition().append(joined(whole, rest))
    assert isinstance(result, Appended)
    assert len(result.write.batches[0].data) == len(whole)


@pytest.mark.parametrize("spare", [-1, 0, 1])
@pytest.mark.parametrize("origin", [AppendOrigin.CLIENT, AppendOrigin.COORDINATOR])
def test_max_message_bytes_bounds_the_whole_batch(spare: int, origin: AppendOrigin) -> None:
    records = data_batch(value=b"x" * 500)
    result = Partition(LogConfig(max_message_bytes=len(records) + spare)).append(records, origin)
    if spare >= 0:
        assert isinstance(result, Appended)
    else:
        assert result.error is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("spare", [0, -1])
def test_the_records_of_a_batch_with_rows_are_limited(spare: int) -> None:
    count = MAX_RECORDS_WITH_ROWS - spare
    many = memoryview(bytearray(build_batch([SimpleRecord(None, None, NOW_MS)] * count, codec=Codec.GZIP)))
    assert isinstance(check_client_batch(many, LogConfig(), NOW_MS), BatchHeader)
    result = check_client_batch(many, LogConfig(sql_columns=True), NOW_MS)
    if spare < 0:
        assert isinstance(result, Rejected)
        assert result.error is ErrorCode.MESSAGE_TOO_LARGE
    else:
        assert isinstance(result, BatchHeader)


def test_size_is_judged_before_the_checksum() -> None:
    records = patched(data_batch(), 60, 9, 1, fix_crc=False)
    assert Partition(LogConfig(max_message_bytes=10)).append(records).error is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("spare", [-1, 0])
def test_a_batch_larger_than_a_segment(spare: int) -> None:
    records = data_batch(value=b"x" * 500)
    result = Partition(LogConfig(segment_bytes=len(records) + spare)).append(records)
    assert isinstance(result, Appended) if spare == 0 else result.error is ErrorCode.RECORD_LIST_TOO_LARGE


@pytest.mark.parametrize(
    ("offset_ms", "accepted"), [(HOUR_MS, True), (HOUR_MS + 1, False), (-(10**12), True), (-NOW_MS - 1, True)]
)
def test_timestamps_after_now_are_bounded_by_an_hour(offset_ms: int, accepted: bool) -> None:
    result = Partition().append(data_batch(timestamps=[NOW_MS + offset_ms]))
    assert isinstance(result, Appended) is accepted


def test_each_record_out_of_bounds_is_named() -> None:
    config = LogConfig(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=2000)
    times = [NOW_MS, NOW_MS - 1001, NOW_MS - 1000, -1, NOW_MS + 2000, NOW_MS + 2001]
    result = Partition(config).append(data_batch(timestamps=times))
    assert result.error is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in result.record_errors] == [1, 5]


def test_old_timestamps_are_found_behind_a_good_header() -> None:
    config = LogConfig(message_timestamp_before_max_ms=1000)
    result = Partition(config).append(data_batch(timestamps=[NOW_MS, NOW_MS - 5000], codec=Codec.GZIP))
    assert result.error is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in result.record_errors] == [1]


def test_a_record_without_a_timestamp_is_in_bounds() -> None:
    config = LogConfig(message_timestamp_before_max_ms=1000)
    assert isinstance(Partition(config).append(data_batch(timestamps=[-1])), Appended)


def test_log_append_time_topics_do_not_judge_timestamps() -> None:
    assert isinstance(Partition(STAMPED).append(data_batch(timestamps=[NOW_MS + 10 * HOUR_MS])), Appended)


@pytest.mark.parametrize("readonly", [False, True])
def test_log_append_time_is_stamped_with_a_new_checksum(readonly: bool) -> None:
    records = data_batch(2, timestamps=[5, 6])
    result = Partition(STAMPED).append(records.toreadonly() if readonly else records)
    assert isinstance(result, Appended)
    assert result.log_append_time_ms == NOW_MS
    (batch,) = result.write.batches
    header = parse_header(batch.data)
    check_crc(batch.data, header)
    assert batch.max_timestamp_ms == header.max_timestamp == NOW_MS
    assert {record.timestamp_ms for record in read_records(batch.data)} == {NOW_MS}


def test_a_new_configuration_holds_from_the_next_append_on() -> None:
    partition = Partition()
    assert partition.append(data_batch()).log_append_time_ms == -1
    partition.log.configure(STAMPED)
    assert partition.append(data_batch()).log_append_time_ms == NOW_MS


def test_compacted_topics_name_every_keyless_record() -> None:
    result = Partition(COMPACTED).append(data_batch(timestamps=[NOW_MS] * 4, keys=[b"a", None, b"", None]))
    assert result.error is ErrorCode.INVALID_RECORD
    assert [index for index, _ in result.record_errors] == [1, 3]


def test_a_bad_timestamp_outweighs_a_missing_key() -> None:
    result = Partition(COMPACTED).append(data_batch(timestamps=[NOW_MS, NOW_MS + 2 * HOUR_MS], keys=[None, b"k"]))
    assert result.error is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in result.record_errors] == [0, 1]


@pytest.mark.parametrize("codec", list(Codec))
def test_compacted_topics_take_keyed_records(codec: Codec) -> None:
    assert isinstance(Partition(COMPACTED).append(data_batch(3, codec=codec)), Appended)


def test_compacted_topics_refuse_records_that_cannot_be_read() -> None:
    records = patched(data_batch(3, codec=Codec.GZIP), 61, 0, 1)
    assert Partition(COMPACTED).append(records).error is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("readonly", [False, True])
def test_offset_and_epoch_are_patched_in_place_or_in_a_copy(readonly: bool) -> None:
    partition = Partition(epoch=7)
    partition.append(data_batch(5))
    records = data_batch(2, value=b"x" * 100_000)
    result = partition.append(records.toreadonly() if readonly else records)
    assert isinstance(result, Appended)
    (batch,) = result.write.batches
    header = parse_header(batch.data)
    check_crc(batch.data, header)
    assert (header.base_offset, header.last_offset, header.partition_leader_epoch) == (5, 6, 7)
    assert (parse_header(records).base_offset == 5) is not readonly
    if not readonly:
        assert isinstance(batch.data, memoryview)
        assert batch.data.obj is records.obj


@pytest.mark.parametrize("count", [1, FEW_RECORDS - 1, FEW_RECORDS, FEW_RECORDS + 1, 5 * FEW_RECORDS])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_short_batch_never_takes_long(count, codec):
    """Tested with the smallest possible records."""
    batch = memoryview(build_batch([SimpleRecord(None, None, NOW_MS)] * count, codec=codec))
    assert takes_long(batch, COMPACTED, NOW_MS) == (codec is not Codec.NONE or count > FEW_RECORDS)
    if is_short(batch):
        assert not takes_long(batch, COMPACTED, NOW_MS)
    assert is_short(batch) or count > 1 or codec is not Codec.NONE


def test_a_record_with_many_headers_is_checked_in_little_memory() -> None:
    headers = (("", None),) * 200_000
    batch = memoryview(bytearray(build_batch([SimpleRecord(b"k", b"v", NOW_MS, headers)])))
    tracemalloc.start()
    result = check_client_batch(batch, COMPACTED, NOW_MS)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result == parse_header(batch)
    assert peak < 2 * len(batch)
