"""Hostile batches: for any bytes only our own errors are raised, and memory is proportional to their length."""

import struct
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from record_strategies import record_lists

from odradek.wire.records.batch import HEADER_BYTES, Codec, check_crc, iter_headers, parse_header
from odradek.wire.records.builder import SimpleRecord, build_batch
from odradek.wire.records.errors import CorruptBatch, InvalidRecordBatch, RecordTooLarge
from odradek.wire.records.reader import read_control_marker, read_positions, read_records, read_summaries
from odradek.wire.records.varint import read_varint, read_varlong, write_varint

BOUND = 1 << 20


def drain(data: bytes) -> None:
    """Does everything with a batch that a reader can do."""
    for header in iter_headers(data):
        list(read_records(data, header, max_bytes=BOUND))
        list(read_positions(data, header, max_bytes=BOUND))
        if header.is_control:
            read_control_marker(data, header)
        check_crc(data, header)


def survives(data: bytes) -> bool:
    try:
        drain(data)
    except InvalidRecordBatch:
        return False
    return True


@settings(max_examples=400)
@given(
    record_lists, st.sampled_from(Codec), st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), max_size=5)
)
def test_damaged_batches_raise_only_our_errors(listed, codec, damage) -> None:
    data = bytearray(build_batch(listed, codec=codec, control=len(damage) % 2 == 0))
    for position, value in damage:
        data[position % len(data)] = value
    survives(bytes(data))


def outcome(read, data: bytes) -> tuple[object, object]:
    """What a reader has read until the end or an error, and the error."""
    found = []
    try:
        found.extend(read(data, max_bytes=BOUND))  # keeps what came before an error
    except InvalidRecordBatch as error:
        return found, repr(error)
    return found, None


def assert_summaries_are_those_of(data: bytes) -> None:
    records, error = outcome(read_records, data)
    expected = [(each.timestamp_ms, each.key is not None) for each in records]
    assert outcome(read_summaries, data) == (expected, error)


@settings(max_examples=400)
@given(
    record_lists, st.sampled_from(Codec), st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), max_size=3)
)
def test_summaries_are_read_and_refused_as_records_are(listed, codec, damage) -> None:
    data = bytearray(build_batch(listed, codec=codec))
    for position, value in damage:
        data[HEADER_BYTES + position % (len(data) - HEADER_BYTES)] = value
    assert_summaries_are_those_of(bytes(data))


@given(st.binary(max_size=40))
def test_summaries_of_noise_are_refused_as_records_are(noise: bytes) -> None:
    assert_summaries_are_those_of(body_batch(record(b"\0\0\0" + noise)))


def test_summaries_of_many_headers_take_little_memory() -> None:
    count = 200_000
    body = bytearray(b"\0\0\0\1\1")
    write_varint(body, count)
    data = body_batch(record(bytes(body) + b"\0\1" * count))
    tracemalloc.start()
    summaries = list(read_summaries(data))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(summaries) == 1
    assert peak < 2 * len(data)


@given(st.binary(max_size=200))
def test_noise_raises_only_our_errors(noise: bytes) -> None:
    survives(noise)
    header = struct.pack(">qiibIhiqqqhii", 0, 49 + len(noise), 0, 2, 0, 0, 9, 0, 0, 0, 0, 0, 10)
    survives(header + noise)


@pytest.mark.parametrize("field", [(8, ">i"), (23, ">i"), (57, ">i"), (0, ">q")])
@pytest.mark.parametrize("value", [-(2**31), -1, 0, 1, 2, 4, 100, 2**31 - 1])
def test_impossible_header_numbers_are_reported_in_little_memory(field: tuple[int, str], value: int) -> None:
    data = bytearray(build_batch([SimpleRecord(b"k", b"v")] * 3))
    good = struct.unpack_from(field[1], data, field[0])[0]
    struct.pack_into(field[1], data, field[0], value)
    tracemalloc.start()
    accepted = survives(bytes(data))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200_000
    # CRC and record deltas detect the rest; any base offset is valid that leaves room for the last offset.
    assert accepted == (value == good or field[0] == 0)


def body_batch(section: bytes, count: int = 1, last_delta: int = 0) -> bytes:
    """A batch with a hand-made records section and no valid CRC."""
    return (
        struct.pack(">qiibIhiqqqhii", 0, 49 + len(section), 0, 2, 0, 0, last_delta, 0, 0, -1, -1, -1, count) + section
    )


def record(body: bytes) -> bytes:
    out = bytearray()
    write_varint(out, len(body))
    return bytes(out) + body


GOOD = record(b"\0\0\0\2k\2v\0")
CASES = {
    "record longer than the batch": b"\x7e" + GOOD[1:],
    "record shorter than the least": record(b"\0\0\0\1\1") + b"\0\0",
    "negative record length": b"\x01" + GOOD[1:],
    "endless length varint": b"\xff" * 10,
    "33-bit length varint": b"\xff\xff\xff\xff\x1f" + GOOD,
    "endless timestamp varlong": record(b"\0" + b"\xff" * 11 + b"\0\1\1\0"),
    "65-bit timestamp varlong": record(b"\0" + b"\xff" * 9 + b"\x03\0\1\1\0"),
    "negative offset delta": record(b"\0\0\1\1\1\0\0"[:6]),
    "offset delta after the last": record(b"\0\0\2\1\1\0"),
    "key longer than the record": record(b"\0\0\0\x20k\2v\0"),
    "key of length -2": record(b"\0\0\0\3k\2v\0"),
    "value longer than the record": record(b"\0\0\0\2k\x10v\0"),
    "value of length -2": record(b"\0\0\0\2k\3v\0"),
    "negative header count": record(b"\0\0\0\1\1\1"),
    "more headers than bytes": record(b"\0\0\0\1\1\xfe\xff\xff\xff\x0f"),
    "header without a key": record(b"\0\0\0\1\1\2\1\1"),
    "header longer than the record": record(b"\0\0\0\1\1\2\x20k\1"),
    "bytes left in the record": record(b"\0\0\0\1\1\0junk"),
    "bytes left in the batch": GOOD + b"junk",
    "record ends in its value": record(b"\0\0\0\1\1\2\0"),
}


@pytest.mark.parametrize("case", CASES)
def test_malformed_records_are_corrupt(case: str) -> None:
    assert [r.key for r in read_records(body_batch(GOOD))] == [b"k"]
    with pytest.raises(CorruptBatch):
        list(read_records(body_batch(CASES[case])))
    assert_summaries_are_those_of(body_batch(CASES[case]))


@pytest.mark.parametrize(
    ("count", "last_delta"), [(2, 0), (2, 1), (-1, 0), (0, -1), (1, -1), (0, 0), (2**31 - 1, 2**31 - 1)]
)
def test_counts_that_contradict_the_records_are_corrupt(count: int, last_delta: int) -> None:
    with pytest.raises(CorruptBatch):
        list(read_records(body_batch(GOOD, count, last_delta)))


def test_an_empty_batch_that_compaction_left_has_no_records() -> None:
    empty = body_batch(b"", 0, 5)
    assert parse_header(empty).last_offset == 5
    assert list(read_records(empty)) == []
    with pytest.raises(CorruptBatch, match="without a record"):
        read_control_marker(body_batch(b"", 0, 0)[:21] + b"\0\x20" + empty[23:])


def test_offsets_stay_within_64_bits() -> None:
    built = bytearray(build_batch([SimpleRecord(None, b"")] * 2))
    struct.pack_into(">q", built, 0, 2**63 - 1)
    with pytest.raises(CorruptBatch, match="64 bits"):
        list(read_records(built))


@pytest.mark.parametrize("codec", list(Codec))
def test_records_that_decompress_past_the_bound_are_too_large(codec: Codec) -> None:
    built = build_batch([SimpleRecord(None, bytes(5000))], codec=codec)
    assert len(list(read_records(built, max_bytes=5100))) == 1
    with pytest.raises(RecordTooLarge):
        list(read_records(built, max_bytes=4000))


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints_round_trip(value: int) -> None:
    out = bytearray()
    write_varint(out, value)
    assert read_varlong(bytes(out), 0) == (value, len(out))
    if -(2**31) <= value < 2**31:
        assert read_varint(bytes(out), 0) == (value, len(out))
    else:
        with pytest.raises(CorruptBatch):
            read_varint(bytes(out), 0)
    for end in range(len(out)):
        with pytest.raises(IndexError):
            read_varlong(bytes(out[:end]), 0)
