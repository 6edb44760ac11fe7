"""The rows that a load reads, and their ranges: each row is in exactly one range, for any values."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import NullPool, create_engine, text

from odradek.pipeline.databases import positions
from odradek.pipeline.databases.encode import RowFormat
from odradek.pipeline.databases.engine import TransientError
from odradek.pipeline.databases.reading import Order, TableReader
from odradek.pipeline.databases.tables import described
from odradek.pipeline.errors import PipelineError

STAMP = {"sqlite": "DATETIME", "postgresql+psycopg": "TIMESTAMP"}


def run(url: str, *statements: str) -> None:
    with create_engine(url, poolclass=NullPool).begin() as connection:
        for statement in statements:
            connection.execute(text(statement))


def reader(url: str, *expressions: tuple[str, ...], **order: object) -> TableReader:
    found = described(url, "t")
    return TableReader(url, None, "t", Order(expressions, **order), RowFormat(found.columns, ("id",)))


def read_all(reader: TableReader, rows: int, most: int = 4) -> list[list[int]]:
    """The ids of each range, planned from position to position as a load does."""
    found: list[list[int]] = []
    after = None
    while ranges := reader.plan(after, rows, most):
        for span in ranges:
            stored = json.loads(json.dumps(positions.to_json(span.until)))
            assert positions.from_json(stored) == span.until
            found.append([json.loads(key)["id"] for key, _ in reader.rows(span)])
        after = ranges[-1].until
    return found


def test_an_increasing_column_is_read_in_its_order(database):
    run(
        database,
        "CREATE TABLE t (id BIGINT PRIMARY KEY)",
        "INSERT INTO t VALUES (9), (-5), (7), (3), (1), (4000000000)",
    )
    assert read_all(reader(database, ("id",)), 2) == [[-5, 1], [3, 7], [9, 4000000000]]
    assert read_all(reader(database, ("id",)), 4, 1) == [[-5, 1, 3, 7], [9, 4000000000]]


def test_rows_that_come_later_are_found_behind_the_position(database):
    run(database, "CREATE TABLE t (id BIGINT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
    by_id = reader(database, ("id",))
    run(database, "INSERT INTO t VALUES (3), (4)")
    [span] = by_id.plan((2,), 10, 10)
    assert [key for key, _ in by_id.rows(span)] == [b'{"id":3}', b'{"id":4}']
    assert (by_id.waiting((2,)), by_id.plan((4,), 10, 10)) == (2, [])


def test_equal_timestamps_are_never_parted(database):
    stamp = STAMP[database.split(":", maxsplit=1)[0]]
    rows = ", ".join(f"({number}, '2024-01-01 00:00:0{number // 4}')" for number in range(10))
    run(database, f"CREATE TABLE t (id BIGINT PRIMARY KEY, at {stamp})", f"INSERT INTO t VALUES {rows}")
    found = read_all(reader(database, ("at",), timestamp=True), 3)
    assert [sorted(each) for each in found if each] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_equal_timestamps_are_distinguished_by_an_increasing_column(database):
    stamp = STAMP[database.split(":", maxsplit=1)[0]]
    rows = ", ".join(f"({number}, '2024-01-01 00:00:0{1 - number % 2}')" for number in range(6))
    run(database, f"CREATE TABLE t (id BIGINT PRIMARY KEY, at {stamp})", f"INSERT INTO t VALUES {rows}")
    assert read_all(reader(database, ("at",), ("id",), timestamp=True), 2) == [[1, 3], [5, 0], [2, 4]]


def test_rows_without_a_value_to_go_by_are_counted(database):
    run(database, "CREATE TABLE t (id BIGINT PRIMARY KEY, a BIGINT, b BIGINT)")
    run(database, "INSERT INTO t VALUES (1, NULL, NULL), (2, 5, NULL), (3, NULL, 4)")
    by_a, by_both = reader(database, ("a",)), reader(database, ("a", "b"))
    assert (read_all(by_a, 10), by_a.unordered()) == ([[2]], 2)
    assert (read_all(by_both, 10), by_both.unordered()) == ([[3, 2]], 1)


@pytest.mark.parametrize("kind", ["DATETIME", "TEXT"])
def test_times_of_sqlite_are_compared_as_they_are_stored(sqlite, kind):
    run(sqlite, f"CREATE TABLE t (id BIGINT PRIMARY KEY, at {kind})")
    run(sqlite, "INSERT INTO t VALUES (1, '2024-01-01 00:00:00'), (2, '2024-01-01 00:00:00.5'), (3, CURRENT_TIMESTAMP)")
    assert read_all(reader(sqlite, ("at",), timestamp=True), 1) == [[1], [2], [3]]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_young_and_future_rows_wait(database, zone):
    stamp = STAMP[database.split(":", maxsplit=1)[0]]
    now = datetime.now(UTC)  # noqa: TID251 - the job's clock, too
    if not database.startswith("sqlite"):  # SQLite's times without a zone are in UTC
        now += timedelta(hours=9 if zone == "Asia/Tokyo" else 0)
    ages = {1: 3600, 2: 300, 3: -3600}
    rows = ", ".join(f"({key}, '{(now - timedelta(seconds=age)):%Y-%m-%d %H:%M:%S}')" for key, age in ages.items())
    run(database, f"CREATE TABLE t (id BIGINT PRIMARY KEY, at {stamp})", f"INSERT INTO t VALUES {rows}")
    assert read_all(reader(database, ("at",), timestamp=True, delay_s=0, zone=zone), 9) == [[1, 2]]
    assert read_all(reader(database, ("at",), timestamp=True, delay_s=1800, zone=zone), 9) == [[1]]


def test_times_with_a_zone_are_instants(postgres):
    run(
        postgres,
        "CREATE TABLE t (id BIGINT PRIMARY KEY, at TIMESTAMPTZ)",
        "INSERT INTO t SELECT i, now() + (i - 3) * interval '1 hour' FROM (VALUES (1), (2), (4)) AS v (i)",
    )
    assert read_all(reader(postgres, ("at",), timestamp=True), 1) == [[1], [2]]


def test_keys_of_several_columns_and_kinds(postgres):
    run(
        postgres,
        "CREATE TABLE t (id BIGINT, u UUID, s TEXT, d NUMERIC, PRIMARY KEY (u, s, d))",
        "INSERT INTO t SELECT i, lpad(i::text, 32, '0')::uuid, 'x' || (i % 2), i / 3.0 FROM generate_series(1, 9) i",
    )
    assert read_all(reader(postgres, ("u",), ("s",), ("d",)), 4) == [[1, 2, 3, 4], [5, 6, 7, 8], [9]]


def test_a_database_that_is_away_can_be_read_later(postgres, postgres_server):
    run(postgres, "CREATE TABLE t (id BIGINT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
    by_id = reader(postgres, ("id",))
    postgres_server.kill()
    try:
        with pytest.raises(TransientError, match="refused"):
            by_id.plan(None, 10, 10)
    finally:
        postgres_server.start()
    assert read_all(by_id, 10) == [[1, 2]]


def test_a_value_that_has_no_kind_of_its_column_is_refused_by_name(sqlite):
    run(sqlite, "CREATE TABLE t (id BIGINT PRIMARY KEY, at DATE)", "INSERT INTO t VALUES (1, 'soon')")
    with pytest.raises(PipelineError, match="column 'at': 'soon' is no date"):
        read_all(reader(sqlite, ("id",)), 10)


def test_a_table_that_is_not_there_is_named(database):
    run(database, "CREATE TABLE other (id BIGINT)")
    with pytest.raises(PipelineError, match="has no table 't'"):
        described(database, "t")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("sqlite://", "in memory"),
        ("sqlite:////nowhere/at/all.db", "there is no SQLite database"),
        ("no url", "is no database's URL"),
        ("tape://x/y", "SQLAlchemy knows no such database"),
        ("oracle://user:secret@host/x", "its driver is not installed"),
        ("postgresql+psycopg://user:secret@127.0.0.1:1/x", r"user:\*\*\*@127.0.0.1:1/x: connection failed"),
    ],
)
def test_a_url_that_leads_nowhere_is_explained_without_its_password(url, said):
    with pytest.raises(PipelineError, match=said) as failed:
        described(url, "t")
    assert "secret" not in failed.value.message
