"""Builder and reader against each other and against kafka-python and aiokafka."""

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from record_strategies import ORACLES, blobs, oracle_batch, record_headers, record_lists

from odradek.wire.records.batch import Codec, check_crc, parse_header
from odradek.wire.records.builder import SimpleRecord, build_batch, end_transaction_marker, leader_change_marker
from odradek.wire.records.errors import CorruptBatch
from odradek.wire.records.reader import (
    ControlType,
    Record,
    RecordPosition,
    first_record_at_or_after,
    max_timestamp_record,
    read_control_marker,
    read_positions,
    read_records,
)

# The other implementations require timestamp differences of at most 64 bits, and reserve negative timestamps.
plain_records = st.builds(SimpleRecord, blobs, blobs, st.integers(0, 2**60), record_headers)
plain_lists = st.lists(plain_records, min_size=1, max_size=12)


def expected(listed: list[SimpleRecord], base_offset: int) -> list[Record]:
    return [
        Record(base_offset + i, record.timestamp_ms, record.key, record.value, record.headers)
        for i, record in enumerate(listed)
    ]


@pytest.mark.parametrize("codec", list(Codec))
@given(record_lists, st.integers(0, 2**62))
def test_what_is_built_is_read(codec: Codec, listed: list[SimpleRecord], base_offset: int) -> None:
    built = build_batch(listed, codec=codec, base_offset=base_offset)
    header = parse_header(built)
    check_crc(built, header)
    assert header.codec == codec
    assert list(read_records(built)) == expected(listed, base_offset)
    positions = [RecordPosition(record.offset, record.timestamp_ms) for record in expected(listed, base_offset)]
    assert list(read_positions(built)) == positions


@pytest.mark.parametrize("oracle", ORACLES)
@given(plain_lists, st.sampled_from([(-1, -1, -1), (9, 3, 2**31 - 2)]))
def test_built_bytes_equal_those_of_other_implementations(oracle, listed, producer) -> None:
    theirs = oracle_batch(oracle, listed, producer=producer)
    assert theirs == build_batch(
        listed,
        leader_epoch={"kafka-python": 0, "aiokafka": -1}[oracle],
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
    )


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("codec", list(Codec))
@settings(max_examples=30)
@given(plain_lists)
def test_batches_of_other_implementations_are_read(oracle: str, codec: Codec, listed: list[SimpleRecord]) -> None:
    theirs = oracle_batch(oracle, listed, codec=codec)
    check_crc(theirs, parse_header(theirs))
    assert list(read_records(theirs)) == expected(listed, 0)


@pytest.mark.parametrize("batch_class", [KafkaPythonBatch, AiokafkaBatch])
@pytest.mark.parametrize("codec", list(Codec))
@settings(max_examples=30)
@given(plain_lists)
def test_other_implementations_read_ours(batch_class, codec: Codec, listed: list[SimpleRecord]) -> None:
    batch = batch_class(bytearray(build_batch(listed, codec=codec, base_offset=40)))
    assert batch.validate_crc()
    read = [Record(r.offset, r.timestamp, r.key, r.value, tuple(tuple(h) for h in r.headers)) for r in batch]
    assert read == expected(listed, 40)


def test_a_large_record_survives_every_codec() -> None:
    value = bytes(range(256)) * 5000
    for codec in Codec:
        (record,) = read_records(build_batch([SimpleRecord(None, value, 5)], codec=codec))
        assert record == Record(0, 5, None, value)


def test_records_are_copies_of_the_buffer() -> None:
    buffer = bytearray(build_batch([SimpleRecord(b"key", b"value")]))
    (record,) = read_records(buffer)
    buffer[:] = bytes(len(buffer))
    assert record[2:4] == (b"key", b"value")


def test_log_append_time_goes_for_all_records() -> None:
    built = build_batch([SimpleRecord(None, b"", 10), SimpleRecord(None, b"", 5)], log_append_time_ms=99)
    assert [record.timestamp_ms for record in read_records(built)] == [99, 99]
    assert first_record_at_or_after(built, 11) == RecordPosition(0, 99)
    assert max_timestamp_record(built) == RecordPosition(0, 99)


def test_a_batch_needs_a_record() -> None:
    with pytest.raises(ValueError, match="at least one"):
        build_batch([])


def test_headers_that_are_no_utf8_are_replaced_as_java_does() -> None:
    built = build_batch([SimpleRecord(None, None, 0, (("ab", None),))]).replace(b"ab", b"\xff\xfe")
    (record,) = read_records(built)
    assert record.headers == (("\ufffd\ufffd", None),)


@pytest.mark.parametrize("codec", list(Codec))
def test_lookup_by_timestamp(codec: Codec) -> None:
    listed = [SimpleRecord(None, b"v", timestamp) for timestamp in (100, 90, 300, 200, 300)]
    built = build_batch(listed, codec=codec, base_offset=10)
    assert first_record_at_or_after(built, 0) == RecordPosition(10, 100)
    assert first_record_at_or_after(built, 100, start_offset=11) == RecordPosition(12, 300)
    assert first_record_at_or_after(built, 101) == RecordPosition(12, 300)
    assert first_record_at_or_after(built, 300, start_offset=13) == RecordPosition(14, 300)
    assert first_record_at_or_after(built, 301) is None
    assert max_timestamp_record(built) == RecordPosition(12, 300)
    promised = parse_header(built)._replace(max_timestamp=400)
    assert max_timestamp_record(built, promised) is None


@pytest.mark.parametrize("committed", [False, True])
def test_trap_14_end_transaction_markers(*, committed: bool) -> None:
    built = end_transaction_marker(
        committed=committed,
        producer_id=70,
        producer_epoch=2,
        coordinator_epoch=5,
        timestamp_ms=1234,
        base_offset=9,
        leader_epoch=1,
    )
    header = parse_header(built)
    check_crc(built, header)
    assert header.attributes == 0x30
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (70, 2, -1)
    assert (header.base_offset, header.partition_leader_epoch, header.record_count) == (9, 1, 1)
    (record,) = read_records(built)
    assert record == Record(9, 1234, bytes([0, 0, 0, committed]), b"\0\0\0\0\0\5")
    marker = read_control_marker(built)
    assert marker.type is (ControlType.COMMIT if committed else ControlType.ABORT)
    assert (marker.offset, marker.timestamp_ms, marker.coordinator_epoch) == (9, 1234, 5)
    (theirs,) = KafkaPythonBatch(bytearray(built))
    assert (theirs.commit, theirs.abort) == (committed, not committed)


def test_leader_change_marker_is_a_leader_change_message_of_version_0() -> None:
    built = leader_change_marker(leader_id=1, voters=[1, 2, 3], granting_voters=[2], timestamp_ms=8, leader_epoch=4)
    header = parse_header(built)
    assert (header.attributes, header.producer_id, header.partition_leader_epoch) == (0x20, -1, 4)
    marker = read_control_marker(built)
    assert marker.type is ControlType.LEADER_CHANGE
    assert marker.coordinator_epoch is None
    voters = b"\0\0\0\1\0" + b"\0\0\0\2\0" + b"\0\0\0\3\0"
    assert marker.value == b"\0\0" + b"\0\0\0\1" + b"\4" + voters + b"\2" + b"\0\0\0\2\0" + b"\0"


@pytest.mark.parametrize(
    ("key", "value"),
    [(None, b"\0" * 6), (b"\0\0\0", b"\0" * 6), (b"\xff\xff\0\0", b"\0" * 6), (b"\0" * 4, None), (b"\0" * 4, b"\0" * 5),
     (b"\0" * 4, b"\x80" + b"\0" * 5)],
)  # fmt: skip
def test_damaged_markers_are_corrupt(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(CorruptBatch):
        read_control_marker(build_batch([SimpleRecord(key, value)], control=True))


def test_markers_of_later_versions_and_unknown_types_are_read() -> None:
    later = build_batch([SimpleRecord(b"\0\1\0\1more", b"\0\1\0\0\0\7more")], control=True)
    assert read_control_marker(later).coordinator_epoch == 7
    unknown = build_batch([SimpleRecord(b"\0\0\0\x63", None)], control=True)
    assert read_control_marker(unknown).type is ControlType.UNKNOWN
    with pytest.raises(CorruptBatch, match="not a control"):
        read_control_marker(build_batch([SimpleRecord(b"\0\0\0\1", b"")]))


def test_a_batch_with_gaps_between_its_offsets():
    built = build_batch(
        [SimpleRecord(b"a", b"1", 5), SimpleRecord(b"b", None, 7)], base_offset=10, offset_deltas=[0, 9]
    )
    assert [(record.offset, record.key) for record in read_records(built)] == [(10, b"a"), (19, b"b")]
    header = parse_header(built)
    assert (header.last_offset, header.record_count) == (19, 2)
    check_crc(built, header)
