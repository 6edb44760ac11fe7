"""Records to Arrow columns: both decoders return the same, and what consumers return."""

import operator
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.pipeline.segments import plain, vectors
from odradek.pipeline.segments.filters import Condition
from odradek.pipeline.segments.reading import decoder
from odradek.pipeline.segments.rows import RowFilter, Section
from odradek.wire.records.batch import HEADER_BYTES, Codec, iter_headers, parse_header
from odradek.wire.records.builder import SimpleRecord, build_batch
from odradek.wire.records.errors import CorruptBatch
from odradek.wire.records.reader import records_section

DECODERS = pytest.mark.parametrize("decoder", [vectors, plain], ids=["vectors", "plain"])
ALL = RowFilter(0, 2**62)


def section(batch):
    header = parse_header(batch)
    return Section(header, records_section(batch, header))


def rows(decoder, sections, keep=ALL):
    columns = decoder.decode(sections, keep, with_headers=True)
    for column in columns:
        column.validate(full=True)
    found = zip(*[column.to_pylist() for column in columns], strict=True)
    return [(*row[:3], int(row[3].timestamp() * 1000 + 0.5), *row[4:]) for row in found]


blobs = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=4).map(tuple)
records = st.builds(SimpleRecord, blobs, blobs, st.integers(0, 2**40), headers)
batches = st.lists(
    st.tuples(st.lists(records, min_size=1, max_size=8), st.sampled_from(Codec), st.none() | st.integers(0, 2**40)),
    min_size=1,
    max_size=4,
)


@settings(deadline=None)
@given(batches, st.integers(0, 20), st.integers(0, 20))
def test_both_decoders_agree_with_what_was_built(written, start, length):
    sections, expected, offset = [], [], 0
    for contents, codec, append_time in written:
        batch = build_batch(contents, base_offset=offset, codec=codec, log_append_time_ms=append_time)
        sections.append(section(batch))
        for record in contents:
            time_ms = record.timestamp_ms if append_time is None else append_time
            found = [{"key": key, "value": value} for key, value in record.headers] or None
            if start <= offset < start + length:
                expected.append((record.key, record.value, offset, time_ms, int(append_time is not None), found))
            offset += 1
    keep = RowFilter(start, start + length)
    assert rows(vectors, sections, keep) == rows(plain, sections, keep) == expected


@DECODERS
def test_records_of_every_size(decoder):
    values = [bytes(size) for size in (0, 1, 55, 56, 63, 64, 8000, 8191, 8192, 1 << 20, (1 << 20) + 1)]
    batch = build_batch([SimpleRecord(b"k", value, 7) for value in values])
    assert [row[1] for row in rows(decoder, [section(batch)])] == values


MANY = [SimpleRecord(b"%05d" % n, b"v" * (50 + n // 70 * 30), 1000 + n) for n in range(300)]
"""Runs of records of the same length, ending where offset, time or value take more bytes."""


@DECODERS
def test_runs_of_records_of_one_length(decoder):
    found = rows(decoder, [section(build_batch(MANY)), section(build_batch(MANY[::-1], base_offset=300))])
    expected = [*MANY, *MANY[::-1]]
    assert [row[:4] for row in found] == [(r.key, r.value, n, r.timestamp_ms) for n, r in enumerate(expected)]


def test_what_is_as_it_should_be_takes_the_fast_way(monkeypatch):
    monkeypatch.setattr(plain, "decode", None)
    varied = [SimpleRecord(None, b"v" * (n % 7), 1000) for n in range(300)]
    sections = [section(build_batch(MANY)), section(build_batch(varied, base_offset=300))]
    assert [row[1] for row in rows(vectors, sections)] == [record.value for record in [*MANY, *varied]]


@DECODERS
def test_batches_that_lie_in_one_buffer(decoder):
    parts = [build_batch(MANY[:40]), build_batch(MANY[40:41], base_offset=40), build_batch(MANY[41:], base_offset=41)]
    stored = b"".join(parts)
    sections = [Section(header, records_section(stored, header)) for header in iter_headers(stored)]
    assert [row[:2] for row in rows(decoder, sections)] == [(record.key, record.value) for record in MANY]


@DECODERS
@pytest.mark.parametrize("change", [-2, 2, 4])
def test_a_wrong_length_within_a_run_is_refused(decoder, change):
    batch = build_batch([SimpleRecord(None, b"value", 7)] * 60)
    header = parse_header(batch)
    data = bytearray(batch[HEADER_BYTES:])
    data[len(data) // 60 * 30] += change
    with pytest.raises(CorruptBatch):
        decoder.decode([Section(header, bytes(data))], ALL, with_headers=False)


@DECODERS
def test_a_header_key_that_is_no_utf_8_is_read_as_java_reads_it(decoder):
    batch = build_batch([SimpleRecord(None, b"v", 7, (("ab", b"1"),)), SimpleRecord(None, b"w", 8)])
    broken = bytearray(batch)
    broken[broken.index(b"ab")] = 0xFF
    found = rows(decoder, [section(bytes(broken))])
    assert found[0][5] == [{"key": "\ufffdb", "value": b"1"}]
    assert found[1][5] is None


@DECODERS
def test_rows_that_conditions_rule_out_are_left_out(decoder):
    batch = build_batch([SimpleRecord(b"%d" % n, None, 1000 + n) for n in range(10)], base_offset=100)
    late = Condition("timestamp", operator.ge, (1_004_000,))
    some = Condition("offset", operator.eq, (101, 105, 107))
    other = Condition("offset", operator.ne, (107,))
    found = rows(decoder, [section(batch)], RowFilter(0, 200, [late, some, other]))
    assert [row[2] for row in found] == [105]


@DECODERS
@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data + b"\0",
        lambda data: bytes([data[0] + 2]) + data[1:],
        lambda data: bytes([data[0] | 1]) + data[1:],
        lambda data: data[:3] + b"\x09" + data[4:],  # offset delta
        lambda data: data[:4] + b"\x7f" + data[5:],  # key length
        lambda data: b"\xff" * len(data),
    ],
)
def test_what_is_no_batch_is_refused(decoder, damage):
    batch = build_batch([SimpleRecord(b"key", b"value", 7)])
    header = parse_header(batch)
    with pytest.raises(CorruptBatch):
        decoder.decode([Section(header, damage(batch[HEADER_BYTES:]))], ALL, with_headers=False)


def test_a_timestamp_that_spark_cannot_hold_is_refused():
    batch = build_batch([SimpleRecord(b"key", b"value", 2**62)])
    with pytest.raises(CorruptBatch, match="timestamp"):
        vectors.decode([section(batch)], ALL, with_headers=False)


def test_the_decoder_is_our_own_where_numpy_is_missing(monkeypatch):
    assert decoder() is vectors
    monkeypatch.setitem(sys.modules, "odradek.pipeline.segments.vectors", None)
    monkeypatch.delattr("odradek.pipeline.segments.vectors")
    assert decoder() is plain
