"""The header view, patching in place and walking, trimming and slicing of whole batches."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch
from record_strategies import int16s, int32s, int64s, record_lists

from odradek.wire.records.batch import (
    HEADER_BYTES,
    BatchHeader,
    TimestampType,
    assign_offsets,
    check_crc,
    increment_sequence,
    iter_headers,
    parse_header,
    peek_header,
    set_log_append_time,
    slice_from_offset,
    stamp_batch,
    trim_before_offset,
    trim_to_bytes,
)
from odradek.wire.records.builder import SimpleRecord, build_batch
from odradek.wire.records.crc import crc32c
from odradek.wire.records.errors import CorruptBatch, CrcMismatch, TruncatedBatch, UnsupportedMagic
from odradek.wire.records.reader import read_records


def batch(count: int = 3, *, base_offset: int = 0, value: bytes = b"value", **fields) -> bytes:
    return build_batch(
        [SimpleRecord(b"key", value, 1_000 + i) for i in range(count)], base_offset=base_offset, **fields
    )


def chunk(*counts: int, start: int = 100) -> tuple[bytes, list[bytes]]:
    batches = []
    for count in counts:
        batches.append(batch(count, base_offset=start))
        start += count
    return b"".join(batches), batches


def test_crc32c_is_castagnoli_and_continues() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(memoryview(bytearray(b"x56789"))[1:], crc32c(b"1234")) == 0xE3069283


@given(
    record_lists,
    st.fixed_dictionaries(
        {
            "base_offset": int64s,
            "leader_epoch": int32s,
            "producer_id": int64s,
            "producer_epoch": int16s,
            "base_sequence": int32s,
            "transactional": st.booleans(),
            "control": st.booleans(),
        }
    ),
)
def test_header_fields_are_those_that_were_built(listed, fields) -> None:
    built = build_batch(listed, **fields)
    header = parse_header(b"junk" + built, 4)
    assert header[:4] == (fields["base_offset"], len(built) - 12, fields["leader_epoch"], 2)
    assert header[6:] == (
        len(listed) - 1,
        listed[0].timestamp_ms,
        max(record.timestamp_ms for record in listed),
        fields["producer_id"],
        fields["producer_epoch"],
        fields["base_sequence"],
        len(listed),
        4,
    )
    assert (header.is_transactional, header.is_control) == (fields["transactional"], fields["control"])
    assert (header.size_bytes, header.end_position) == (len(built), len(built) + 4)
    assert header.last_offset == fields["base_offset"] + len(listed) - 1 == header.next_offset - 1
    check_crc(b"junk" + built, header)


def test_header_properties_follow_the_attribute_bits() -> None:
    plain = parse_header(batch())
    assert (plain.codec, plain.timestamp_type) == (0, TimestampType.CREATE_TIME)
    assert plain.delete_horizon_ms is None
    assert not plain.has_producer_id
    every = plain._replace(attributes=0x7C, base_timestamp=77, producer_id=0)
    assert (every.codec, every.timestamp_type) == (4, TimestampType.LOG_APPEND_TIME)
    assert every.is_transactional
    assert every.is_control
    assert every.has_producer_id
    assert every.delete_horizon_ms == 77


@pytest.mark.parametrize(
    ("base", "delta", "last"),
    [(-1, 5, -1), (0, 0, 0), (7, 3, 10), (2**31 - 1, 0, 2**31 - 1), (2**31 - 1, 1, 0), (2**31 - 2, 5, 3)],
)
def test_last_sequence_wraps_as_in_kafka(base: int, delta: int, last: int) -> None:
    header = parse_header(batch())._replace(base_sequence=base, last_offset_delta=delta)
    oracle = DefaultRecordBatch(bytearray(batch(delta + 1, base_sequence=base, producer_id=1, producer_epoch=0)))
    assert header.last_sequence == last == oracle.last_sequence
    assert base == -1 or increment_sequence(base, delta) == last


@pytest.mark.parametrize("magic", [0, 1, 3, -1])
@pytest.mark.parametrize("size", [17, 34, HEADER_BYTES, 200])
def test_another_message_format_is_named_even_when_shorter_than_a_v2_header(magic: int, size: int) -> None:
    message = struct.pack(">qiib", 0, size - 12, 0, magic).ljust(size, b"\0")
    with pytest.raises(UnsupportedMagic, match=r"message format") as caught:
        parse_header(message)
    assert caught.value.magic == magic
    assert ("no longer supported" in str(caught.value)) == (magic in (0, 1))


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48])
def test_a_batch_length_below_a_header_is_corrupt(length: int) -> None:
    damaged = bytearray(batch())
    struct.pack_into(">i", damaged, 8, length)
    for function in (parse_header, peek_header, lambda b: slice_from_offset(b, 99), lambda b: trim_before_offset(b, 9)):
        with pytest.raises(CorruptBatch):
            function(damaged)


def test_every_cut_is_truncated_and_never_read_past() -> None:
    whole = batch()
    for end in range(len(whole)):
        with pytest.raises(TruncatedBatch):
            parse_header(whole[:end])
    assert peek_header(whole[:HEADER_BYTES]) == parse_header(whole)
    with pytest.raises(ValueError, match="position"):
        parse_header(whole, len(whole) + 1)


def test_iter_headers_walks_whole_batches_and_raises_at_garbage() -> None:
    data, batches = chunk(1, 5, 2)
    headers = list(iter_headers(data))
    assert [header.base_offset for header in headers] == [100, 101, 106]
    assert [data[header.position : header.end_position] for header in headers] == batches
    assert list(iter_headers(b"")) == []
    walk = iter_headers(data + b"garbage")
    assert [next(walk) for _ in batches] == headers
    with pytest.raises(TruncatedBatch):
        next(walk)
    for tail in (1, 40, HEADER_BYTES, len(batches[0]) - 1):
        assert list(iter_headers(data + batches[0][:tail], allow_partial_tail=True)) == headers
    with pytest.raises(UnsupportedMagic):
        list(iter_headers(data + bytes(70), allow_partial_tail=True))


def test_trap_12_crc_covers_from_attributes_on() -> None:
    whole = bytearray(batch())
    header = parse_header(whole)
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1
        if position < 21:
            check_crc(damaged, header)
        else:
            with pytest.raises(CrcMismatch):
                check_crc(damaged, header)


@given(record_lists, int64s, int32s, st.booleans())
def test_trap_12_offsets_are_patched_and_the_crc_holds(listed, base_offset, leader_epoch, writable) -> None:
    received = build_batch(listed)
    buffer = bytearray(received) if writable else received
    parts = assign_offsets(buffer, base_offset, leader_epoch)
    stored = b"".join(parts)
    header = parse_header(stored)
    assert (header.base_offset, header.partition_leader_epoch) == (base_offset, leader_epoch)
    check_crc(stored, header)
    assert stored[16:] == received[16:]
    assert stored[8:12] == received[8:12]
    assert len(parts) == (1 if writable else 2)
    assert (bytes(buffer) == stored) if writable else (buffer == received)


@given(record_lists, st.integers(0, 2**62), st.booleans())
def test_trap_12_log_append_time_has_a_new_crc(listed, now_ms, writable) -> None:
    received = build_batch(listed, codec=1, producer_id=5, producer_epoch=0, base_sequence=1)
    buffer = bytearray(received) if writable else received
    stored = b"".join(set_log_append_time(buffer, parse_header(buffer), now_ms))
    header = parse_header(stored)
    check_crc(stored, header)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header.max_timestamp == now_ms
    assert header._replace(crc=0, attributes=0, max_timestamp=0) == parse_header(received)._replace(
        crc=0, attributes=0, max_timestamp=0
    )
    assert {record.timestamp_ms for record in read_records(stored)} == {now_ms}
    assert (bytes(buffer) == stored) if writable else (buffer == received)


@pytest.mark.parametrize("writable", [False, True])
def test_stamp_batch_touches_only_its_batch_of_the_buffer(*, writable: bool) -> None:
    data, batches = chunk(2, 3, 4)
    buffer = bytearray(data) if writable else data
    header = list(iter_headers(buffer))[1]
    stored = b"".join(stamp_batch(buffer, header, base_offset=7, leader_epoch=3, log_append_time_ms=55))
    stamped = parse_header(stored)
    check_crc(stored, stamped)
    assert (stamped.base_offset, stamped.partition_leader_epoch, stamped.max_timestamp) == (7, 3, 55)
    assert len(stored) == len(batches[1])
    assert bytes(buffer) == (batches[0] + stored + batches[2] if writable else data)
    plain = b"".join(stamp_batch(buffer, header, base_offset=8, leader_epoch=4))
    assert parse_header(plain)[:3] == (8, header.batch_length, 4)


def test_offsets_cannot_be_assigned_to_a_truncated_batch() -> None:
    with pytest.raises(TruncatedBatch):
        assign_offsets(batch()[:-1], 0, 0)


def test_slice_from_offset_keeps_the_batch_that_holds_the_offset() -> None:
    data, (first, second, third) = chunk(2, 3, 1)
    assert slice_from_offset(data, 0) == data
    assert slice_from_offset(data, 101) == data
    assert slice_from_offset(data, 102) == slice_from_offset(data, 104) == second + third
    assert slice_from_offset(data, 105) == third
    assert slice_from_offset(memoryview(data), 106) == b""
    assert first


def test_trim_before_offset_keeps_only_batches_wholly_below() -> None:
    data, (first, second, _) = chunk(2, 3, 1)
    assert trim_before_offset(data, 101) == b""
    assert trim_before_offset(data, 102) == trim_before_offset(data, 104) == first
    assert trim_before_offset(data, 105) == first + second
    assert trim_before_offset(data, 106) == trim_before_offset(data, 10**9) == data


def test_trim_to_bytes_keeps_whole_batches_and_the_first_when_asked() -> None:
    data, (first, second, _) = chunk(2, 3, 1)
    assert trim_to_bytes(data, len(data), keep_first=False) == data
    assert trim_to_bytes(data, len(data) - 1, keep_first=False) == first + second
    assert trim_to_bytes(data, len(first), keep_first=False) == first
    assert trim_to_bytes(data, len(first) - 1, keep_first=False) == b""
    assert trim_to_bytes(data, len(first) - 1, keep_first=True) == first
    assert trim_to_bytes(data, 0, keep_first=True) == first
    assert trim_to_bytes(b"", 0, keep_first=True) == b""


def test_chunks_that_end_inside_a_batch_are_reported() -> None:
    data, batches = chunk(2, 3)
    for cut in (1, len(batches[1]) - 10):
        damaged = data[:-cut]
        with pytest.raises(CorruptBatch):
            slice_from_offset(damaged, 10**6)
        with pytest.raises(CorruptBatch):
            trim_before_offset(damaged, 10**6)
        with pytest.raises(CorruptBatch):
            trim_to_bytes(damaged, len(damaged) - 1, keep_first=True)


def test_a_header_is_a_value_without_a_dict() -> None:
    header = parse_header(batch())
    assert isinstance(header, BatchHeader)
    assert not hasattr(header, "__dict__")
    with pytest.raises(AttributeError):
        header.base_offset = 3  # pyright: ignore[reportAttributeAccessIssue]
