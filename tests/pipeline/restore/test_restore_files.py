"""The rows of a partition from Parquet files: in order, for any order in the files, and counted by their footers."""

import random
from contextlib import suppress
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from restore_tables import SCHEMA, Archived, table_of, write_table

from odradek.pipeline.restoring import files
from odradek.pipeline.restoring.files import most_at_once, scan
from odradek.pipeline.restoring.plan import Rows
from odradek.pipeline.topic_partition import TopicPartition

PLACE = TopicPartition("source", 0)


def rows_in(folder: Path, partition: TopicPartition = PLACE) -> Rows:
    return Rows(partition, scan(str(path) for path in sorted(folder.iterdir()))[partition])


def read(rows: Rows, begin: int = 0, end: int = 2**40) -> list[int]:
    return [offset for some in rows.read(begin, end) for offset in some.offsets.tolist()]


@settings(max_examples=40)
@given(
    st.sets(st.integers(0, 60), min_size=1),
    st.randoms(use_true_random=False),
    st.integers(1, 4),
    st.integers(1, 5),
    st.booleans(),
    st.integers(0, 62),
    st.integers(0, 62),
)
def test_every_question_is_answered_as_by_a_sorted_list(
    tmp_path_factory: pytest.TempPathFactory,
    offsets: set[int],
    chance: random.Random,
    parts: int,
    group: int,
    sort: bool,
    one: int,
    other: int,
):
    folder = tmp_path_factory.mktemp("table")
    rows = [Archived(partition, offset, b"%d" % offset) for offset in offsets for partition in (0, 1)]
    chance.shuffle(rows)
    for number in range(parts):
        part = sorted(rows[number::parts]) if sort else rows[number::parts]
        pq.write_table(table_of(part), folder / f"{number}.parquet", row_group_size=group)
    begin, end = sorted((one, other))
    expected = sorted(offsets)
    inside = [offset for offset in expected if begin <= offset < end]
    with mock.patch.object(files, "PIECE_BYTES", chance.choice([1, 500, 10**6])):
        found = rows_in(folder)
        assert (found.first, found.end) == (expected[0], expected[-1] + 1)
        assert found.count(begin, end) == len(inside)
        assert found.at_or_after(begin, end) == (inside[0] if inside else None)
        assert found.before(end, begin) == (inside[-1] if inside else None)
        assert read(found, begin, end) == inside
        assert found.row(expected[-1]).value == b"%d" % expected[-1]


def test_the_first_row_that_is_not_older(tmp_path: Path):
    times = [50, 10, 70, 20, 90]
    table = [Archived(0, offset, timestamp_ms=time_ms) for offset, time_ms in enumerate(times)]
    rows = rows_in(write_table(tmp_path / "table", table))
    assert [rows.since(time_ms) for time_ms in (0, 50, 51, 71, 91)] == [0, 0, 2, 4, None]


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (pa.timestamp("s"), {}),
        (pa.timestamp("ms", "UTC"), {}),
        (pa.timestamp("us", "UTC"), {}),
        (pa.timestamp("ns"), {}),
        (pa.timestamp("us", "UTC"), {"use_deprecated_int96_timestamps": True}),
    ],
    ids=["s", "ms", "us", "ns", "int96, as Spark writes it"],
)
def test_timestamps_of_any_unit(tmp_path: Path, kind: pa.DataType, options: dict[str, bool]):
    table = table_of([Archived(0, 0, timestamp_ms=-3_000), Archived(0, 1, timestamp_ms=2_000_000_000_000)])
    stamped = table.set_column(3, "timestamp", table["timestamp"].cast(kind))
    pq.write_table(stamped, tmp_path / "one.parquet", **options)
    (found,) = rows_in(tmp_path).read(0, 2)
    assert found.times_ms.tolist() == [-3_000, 2_000_000_000_000]


def test_files_that_follow_each_other_are_not_held_together(tmp_path: Path):
    for begin in range(0, 100, 10):
        rows = [Archived(0, offset, b"v" * 1000) for offset in range(begin, begin + 10)]
        pq.write_table(table_of(rows), tmp_path / f"{begin}.parquet", use_dictionary=False)
    pieces = scan(str(path) for path in tmp_path.iterdir())[PLACE]
    assert len(pieces) == 10
    assert most_at_once(pieces) == max(piece.size_bytes for piece in pieces)
    with mock.patch.object(files, "PIECE_BYTES", 10_000):
        assert [len(some) for some in Rows(PLACE, pieces).read(5, 95)][:2] == [5, 10]
    overlapping = [piece._replace(last=1000) for piece in pieces]
    assert most_at_once(overlapping) == sum(piece.size_bytes for piece in pieces)


def test_row_groups_of_one_partition_are_read_together(tmp_path: Path):
    rows = [Archived(partition, offset) for partition in (0, 1) for offset in range(100)]
    pq.write_table(table_of(rows), tmp_path / "one.parquet", row_group_size=30)
    pieces = scan([str(tmp_path / "one.parquet")])
    assert [(one.begin, one.end, one.first, one.last, one.records, one.mixed) for one in pieces[PLACE]] == [
        (0, 3, 0, 89, 90, False),
        (3, 4, 90, 99, 10, True),
    ]
    assert read(rows_in(tmp_path, TopicPartition("source", 1)), 3) == list(range(3, 100))


def test_another_topic_in_the_same_row_group_is_left_out(tmp_path: Path):
    both = pa.concat_tables([table_of([Archived(0, offset)], topic) for offset, topic in ((1, "source"), (2, "two"))])
    pq.write_table(both, tmp_path / "one.parquet")
    assert read(rows_in(tmp_path)) == [1]
    assert read(rows_in(tmp_path, TopicPartition("two", 0))) == [2]


def test_an_offset_that_comes_twice_is_refused(tmp_path: Path):
    rows = rows_in(write_table(tmp_path / "table", [Archived(0, 7), Archived(0, 8), Archived(0, 7)]))
    with pytest.raises(ValueError, match="offset 7 after 7"):
        list(rows.read(0, 10))


def test_a_row_without_a_timestamp_is_refused(tmp_path: Path):
    table = table_of([Archived(0, 0)])
    nothing = pa.nulls(1, SCHEMA.field("timestamp").type)
    pq.write_table(table.set_column(3, "timestamp", nothing), tmp_path / "one.parquet")
    with pytest.raises(ValueError, match="without offset, timestamp or timestampType"):
        list(rows_in(tmp_path).read(0, 1))


def open_files() -> list[Path]:
    """The files that this process has open."""
    found: list[Path] = []
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the descriptor of the listing itself is closed by now
            found.append(each.readlink())
    return found


def test_no_more_than_a_few_files_are_open(tmp_path: Path):
    write_table(tmp_path, [Archived(0, offset) for offset in range(20)], parts=10)
    with mock.patch.object(files, "OPEN_FILES", 2), mock.patch.object(files, "PIECE_BYTES", 1):
        rows = rows_in(tmp_path)
        with files.Reader(PLACE) as reader:
            found = [some.first for some in reader.rows(rows.pieces, 0, 20)]
            assert sum(each.is_relative_to(tmp_path) for each in open_files()) == 2
    assert found == sorted(found)


def test_what_is_no_parquet_file_has_no_columns(tmp_path: Path):
    (tmp_path / "text").write_text("no table")
    assert files.names_of(str(tmp_path / "text")) is None
    assert files.names_of(str(tmp_path / "missing")) is None
