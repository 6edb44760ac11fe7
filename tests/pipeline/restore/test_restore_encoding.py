"""Rows are encoded as batches with exactly these records."""

import random
from itertools import pairwise
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.pipeline.writing import encoding
from odradek.pipeline.writing.columns import Columns, divided, encode_columns, joined
from odradek.pipeline.writing.encoding import Producer, Row, encode, in_batches
from odradek.wire.records.batch import Codec, check_crc, parse_header
from odradek.wire.records.reader import read_records

blobs = st.none() | st.binary(max_size=30)
headers = st.lists(st.tuples(st.text(max_size=5), blobs), max_size=3)
times = st.integers(-(2**45), 2**45) | st.sampled_from([-1, 0])


@st.composite
def row_lists(draw: st.DrawFn) -> list[Row]:
    """Rows with increasing offsets, with gaps."""
    offset = draw(st.integers(0, 2**40))
    rows: list[Row] = []
    for _ in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from([0, 0, 0, 1]))
        rows.append(Row(offset, draw(times), kind, draw(blobs), draw(blobs), draw(headers)))
        offset += draw(st.sampled_from([1, 1, 1, 2, 1000, 2**31]))
    return rows


@pytest.mark.parametrize("compiled", [True, False])
@given(row_lists(), st.sampled_from(list(Codec)), st.integers(1, 200))
def test_batches_hold_the_rows(compiled: bool, rows: list[Row], codec: Codec, limit_bytes: int):
    with mock.patch.object(encoding, "compiled_builder", encoding.compiled_builder if compiled else lambda: None):
        found = [row for batch in in_batches(rows, limit_bytes) for row in decoded(encode(batch, codec), codec)]
    assert found == [row._replace(headers=tuple(row.headers)) for row in rows]


@given(row_lists(), st.sampled_from(list(Codec)), st.integers(1, 200), st.booleans())
def test_batches_out_of_columns_are_the_same(rows: list[Row], codec: Codec, limit_bytes: int, contiguous: bool):
    columns = columns_of(rows)
    begins = divided(columns, limit_bytes, contiguous=contiguous)
    batches = encode_columns(columns, begins, codec)
    found = [row for header, records in batches for row in decoded(header + records, codec)]
    assert found == [row._replace(headers=tuple(row.headers)) for row in rows]
    for begin, end in pairwise(begins):
        assert (
            end == begin + 1
            or sum(len(row.key or b"") + len(row.value or b"") for row in rows[begin:end]) <= limit_bytes
        )
        assert not contiguous or rows[end - 1].offset - rows[begin].offset == end - begin - 1


@given(row_lists(), st.data())
def test_a_part_of_the_columns_is_that_part_of_the_rows(rows: list[Row], data: st.DataObject):
    columns = columns_of(rows)
    begin = data.draw(st.integers(0, len(rows)))
    end = data.draw(st.integers(begin, len(rows)))
    part, expected = columns.slice(begin, end), rows[begin:end]
    assert [row._replace(headers=list(row.headers)) for row in part.rows()] == expected
    if expected:
        ((header, records),) = encode_columns(
            part, [0, len(part)], 0, Producer(7, 3, 11, transactional=True), dense=True
        )
        assert header + records == encode(expected, 0, Producer(7, 3, 11, transactional=True), dense=True)


@given(row_lists(), st.randoms(use_true_random=False))
def test_parts_in_any_order_are_joined_in_order(rows: list[Row], chance: random.Random):
    mixed = chance.sample(rows, len(rows))
    middle = len(rows) // 2
    parts = [columns_of(part) for part in (mixed[:middle], mixed[middle:]) if part]
    assert [row._replace(headers=list(row.headers)) for row in joined(parts).rows()] == rows
    with pytest.raises(ValueError, match=f"offset {rows[0].offset} after {rows[0].offset}"):
        joined([*parts, columns_of(rows[:1])])


def columns_of(rows: list[Row]) -> Columns:
    """The rows as Arrow columns that do not begin at the start of their buffers."""
    everything = [rows[-1], *rows]
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    listed = [[{"key": key, "value": value} for key, value in row.headers] or None for row in everything]
    numbers = [np.array([row[number] for row in everything], np.int64) for number in range(3)]
    blobs = [
        pa.array([row.key for row in everything], pa.binary()),
        pa.array([row.value for row in everything], pa.binary()),
    ]
    return Columns(*numbers, *blobs, pa.array(listed, pa.list_(header))).slice(1, len(everything))


def decoded(batch: bytes, codec: Codec) -> list[Row]:
    header = parse_header(batch)
    check_crc(batch, header)
    assert header.codec == codec
    assert header.size_bytes == len(batch)
    return [
        Row(one.offset, one.timestamp_ms, header.timestamp_type, one.key, one.value, one.headers)
        for one in read_records(batch)
    ]


@pytest.mark.parametrize("compiled", [True, False])
@given(row_lists())
def test_a_producers_batch_has_no_gaps(compiled: bool, rows: list[Row]):
    with mock.patch.object(encoding, "compiled_builder", encoding.compiled_builder if compiled else lambda: None):
        batch = encode(rows, 0, Producer(7, 3, 11, transactional=True), dense=True)
    header = parse_header(batch)
    check_crc(batch, header)
    assert [one.offset for one in read_records(batch)] == list(range(len(rows)))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 11)
    assert header.is_transactional
    assert header.timestamp_type == 0


def test_a_contiguous_batch_ends_at_a_gap():
    rows = [Row(offset, 0, 0, None, b"", ()) for offset in (1, 2, 5, 6)]
    assert [[row.offset for row in batch] for batch in in_batches(rows, 1000, contiguous=True)] == [[1, 2], [5, 6]]


def test_an_offset_that_comes_twice_is_refused():
    row = Row(4, 0, 0, None, b"", ())
    with pytest.raises(ValueError, match="offset 4 after 4"):
        list(in_batches([row, row], 1000))


def test_the_compiled_builder_is_there():
    assert encoding.compiled_builder() is not None
