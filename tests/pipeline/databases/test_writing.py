"""Records become rows in transactions of the database: in order, once; a record with an error is kept with it."""

import json

import pytest
from sqlalchemy import NullPool, create_engine, text

from odradek.pipeline.databases.bookkeeping import Bookkeeping, FencedExportError
from odradek.pipeline.databases.columns import Column, Kind
from odradek.pipeline.databases.engine import TransientError, open_engine
from odradek.pipeline.databases.rows import Record, RecordMapping
from odradek.pipeline.databases.tables import create_table, describe
from odradek.pipeline.databases.writing import WritePlan, Writer, database_errors

BOOKS = Bookkeeping("job", "topic")
TABLE = "CREATE TABLE t (id BIGINT PRIMARY KEY, name VARCHAR(20) UNIQUE, n BIGINT NOT NULL CHECK (n >= 0))"


def run(url: str, *statements: str) -> list[tuple[object, ...]]:
    """The rows of the last statement."""
    with create_engine(url, poolclass=NullPool).begin() as connection:
        for statement in statements:
            result = connection.execute(text(statement))
        return [tuple(row) for row in result] if result.returns_rows else []


def take_over(url: str) -> int:
    """The epoch of an export that begins now."""
    engine = open_engine(url)
    with engine.begin() as connection:
        BOOKS.prepare(connection)
        return BOOKS.take_over(connection, {0: 0, 1: 0})[0].epoch


def writer(url: str, mode: str = "upsert", *, epoch: int | None = None, key_from_value: bool = False) -> Writer:
    taken = take_over(url) if epoch is None else epoch
    engine = open_engine(url)
    found = describe(engine, "t")
    assert found is not None
    mapping = RecordMapping("topic", mode, found.columns, ("id",) if mode == "upsert" else (), key_from_value)
    return Writer(WritePlan(url, None, "t", BOOKS, mapping, taken, 100))


def upsert(offset: int, key: object, **fields: object) -> Record:
    return Record(0, offset, 0, json.dumps({"id": key}).encode(), json.dumps(fields).encode())


def tombstone(offset: int, key: object) -> Record:
    return Record(0, offset, 0, json.dumps(key).encode(), None)


def dead(url: str) -> list[tuple[object, ...]]:
    return run(url, 'SELECT "offset", error FROM odradek_dead_letters ORDER BY "offset"')


def kept(url: str) -> tuple[object, ...]:
    counts = "next_offset, written, deleted, dead"
    return run(url, f"SELECT {counts} FROM odradek_offsets WHERE partition = 0")[0]


@pytest.fixture
def table(database: str) -> str:
    run(database, TABLE)
    return database


def test_the_last_record_of_a_key_counts_and_a_null_value_deletes(table):
    records = [
        upsert(0, 1, name="a", n=1), upsert(1, 2, name="b", n=1), upsert(3, 1, name="c", n=2), tombstone(4, 2),
        upsert(5, 3, name="d", n=1), tombstone(6, 3), upsert(7, 3, name="e", n=5), tombstone(8, {"id": 99}),
    ]  # fmt: skip
    one = writer(table)
    one.write(0, records)
    one.close()
    assert run(table, "SELECT * FROM t ORDER BY id") == [(1, "c", 2), (3, "e", 5)]
    assert kept(table) == (9, 5, 3, 0)


def test_a_created_table_has_the_names_that_were_given(database):
    columns = [Column("a%b", Kind.INT, nullable=False), Column("100%%", Kind.TEXT)]
    engine = open_engine(database)
    with engine.begin() as connection:
        create_table(connection, "of 5%", columns, ["a%b"])
    found = describe(engine, "of 5%")
    assert found is not None
    assert [one.name for one in found.columns] == ["a%b", "100%%"]
    assert found.primary_key == ("a%b",)
    engine.dispose()


def test_what_is_not_named_becomes_null(table):
    one = writer(table)
    one.write(0, [upsert(0, 1, name="a", n=1), upsert(1, 1, n=2)])
    one.close()
    assert run(table, "SELECT * FROM t") == [(1, None, 2)]


def test_records_that_come_again_change_nothing(table):
    one = writer(table)
    one.write(0, [upsert(0, 1, name="a", n=1), upsert(1, 2, name="b", n=1)])
    run(table, "UPDATE t SET n = 7")
    one.write(0, [upsert(0, 1, name="a", n=1), upsert(1, 2, name="b", n=1), upsert(2, 2, name="b", n=9)])
    one.close()
    assert run(table, "SELECT id, n FROM t ORDER BY id") == [(1, 7), (2, 9)]
    assert kept(table) == (3, 3, 0, 0)


WRONG = {
    "not JSON": (Record(0, 0, 0, b'{"id":1}', b"{"), "the value is not JSON"),
    "no object": (Record(0, 0, 0, b'{"id":1}', b"[1]"), "the value is no JSON object"),
    "no key": (Record(0, 0, 0, None, b'{"n":1}'), "the record has no key"),
    "another key": (Record(0, 0, 0, b'{"no":1}', b'{"n":1}'), "the key has no instead of id"),
    "a null key": (Record(0, 0, 0, b'{"id":null}', b'{"n":1}'), "the key has no id"),
    "two keys": (Record(0, 0, 0, b'{"id":1}', b'{"id":2,"n":1}'), "the key says id 1, the value 2"),
    "an unknown field": (upsert(0, 1, n=1, more=2), "the table has no column 'more'"),
    "a wrong type": (upsert(0, 1, n="many"), 'n: "many" is no int'),
    "a number beyond 64 bits": (upsert(0, 1, n=2**63), "n: 9223372036854775808 is no int"),
    "half a surrogate": (Record(0, 0, 0, b'{"id":1}', b'{"n":1,"name":"\\ud800"}'), "surrogates not allowed"),
    "NaN": (Record(0, 0, 0, b'{"id":1}', b'{"n":NaN}'), "NaN is not JSON"),
    "bytes": (Record(0, 0, 0, b'{"id":1}', b"\xff\xfe\x00"), "the value is not JSON"),
    "deep": (Record(0, 0, 0, b'{"id":1}', b"[" * 100_000), "the value is not JSON"),
    "a deep key": (Record(0, 0, 0, b"[" * 100_000, b'{"n":1}'), "is no int"),
    "a check": (upsert(0, 1, n=-1), "check"),
    "a missing value": (upsert(0, 1, name="x"), "n"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_record_is_kept_with_the_reason_and_the_others_are_written(table, name):
    record, reason = WRONG[name]
    one = writer(table)
    one.write(0, [upsert(0, 10, name="a", n=1), record._replace(offset=1), upsert(2, 11, name="b", n=1)])
    one.close()
    assert run(table, "SELECT id FROM t ORDER BY id") == [(10,), (11,)]
    [(offset, error)] = dead(table)
    assert (offset, kept(table)) == (1, (3, 2, 0, 1))
    assert reason.lower() in error.lower()
    assert run(table, "SELECT key, value FROM odradek_dead_letters") == [(record.key, record.value)]


def test_a_row_that_takes_over_a_unique_value_comes_after_the_one_that_gives_it_up(table):
    one = writer(table)
    one.write(0, [upsert(0, 1, name="x", n=0)])
    one.write(0, [upsert(1, 1, name="y", n=0), upsert(2, 2, name="x", n=0), upsert(3, 1, name="z", n=0)])
    one.close()
    assert (run(table, "SELECT id, name FROM t ORDER BY id"), dead(table)) == ([(1, "z"), (2, "x")], [])


def test_a_refused_change_leaves_the_one_before_it(table):
    one = writer(table)
    one.write(0, [upsert(0, 1, name="a", n=1), upsert(1, 1, name="b", n=-5)])
    one.close()
    assert run(table, "SELECT * FROM t") == [(1, "a", 1)]
    assert [offset for offset, _ in dead(table)] == [1]


def test_the_key_may_stand_in_the_value(table):
    one = writer(table, key_from_value=True)
    one.write(0, [Record(0, 0, 0, None, b'{"id":4,"n":1}'), Record(0, 1, 0, b"x", None)])
    one.close()
    assert (run(table, "SELECT id FROM t"), dead(table)) == ([(4,)], [(1, "the key has no id")])


def test_append_keeps_each_record(database):
    run(
        database,
        "CREATE TABLE t (kafka_topic TEXT, kafka_partition INTEGER, kafka_offset BIGINT, a BIGINT, "
        "PRIMARY KEY (kafka_topic, kafka_partition, kafka_offset))",
    )
    one = writer(database, "append")
    values = [b'{"a":1}', b'{"a":1}', None, b"{}"]
    one.write(1, [Record(1, offset, 0, b"k", value) for offset, value in enumerate(values)])
    one.close()
    assert run(database, "SELECT * FROM t ORDER BY kafka_offset") == [
        ("topic", 1, 0, 1), ("topic", 1, 1, 1), ("topic", 1, 3, None)
    ]  # fmt: skip
    assert dead(database) == [(2, "the value is null, and append does not delete")]


def test_an_export_that_was_taken_over_writes_nothing_more(table):
    first = writer(table)
    first.write(0, [upsert(0, 1, name="a", n=1)])
    second = writer(table)
    with pytest.raises(FencedExportError, match="another export of job 'job' has begun"):
        first.write(0, [upsert(1, 2, name="b", n=1)])
    second.write(0, [upsert(1, 2, name="c", n=1)])
    first.close()
    second.close()
    assert run(table, "SELECT name FROM t ORDER BY id") == [("a",), ("c",)]
    assert kept(table) == (2, 2, 0, 0)


def test_rows_and_offsets_are_there_together_or_not_at_all(table, monkeypatch):
    one = writer(table)

    def fail(*_arguments: object, **_more: object) -> None:
        raise RuntimeError("the end")

    monkeypatch.setattr(Bookkeeping, "advance", fail)
    with pytest.raises(RuntimeError):
        one.write(0, [upsert(0, 1, name="a", n=1), upsert(1, 2, more=1)])
    one.close()
    assert (run(table, "SELECT * FROM t"), dead(table), kept(table)) == ([], [], (0, 0, 0, 0))


def test_a_deferred_constraint_is_checked_with_its_row(postgres):
    run(postgres, "CREATE TABLE p (id INT PRIMARY KEY)", "INSERT INTO p VALUES (1)")
    run(postgres, "CREATE TABLE t (id BIGINT PRIMARY KEY, p INT REFERENCES p DEFERRABLE INITIALLY DEFERRED)")
    one = writer(postgres)
    one.write(0, [upsert(0, 1, p=1), upsert(1, 2, p=2), upsert(2, 3, p=1)])
    one.close()
    assert run(postgres, "SELECT id FROM t ORDER BY id") == [(1,), (3,)]
    assert "foreign key" in dead(postgres)[0][1]


def test_defaults_identities_and_triggers_are_the_databases_own(postgres):
    run(
        postgres,
        "CREATE TABLE t (id BIGINT PRIMARY KEY, row_number BIGINT GENERATED ALWAYS AS IDENTITY, a TEXT DEFAULT 'dflt', "
        "twice BIGINT GENERATED ALWAYS AS (id * 2) STORED)",
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN IF NEW.id = 13 THEN RAISE EXCEPTION 'not 13'; END IF; RETURN NEW; END$$",
        "CREATE TRIGGER refusing BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION refuse()",
    )
    one = writer(postgres)
    one.write(0, [upsert(0, 1), upsert(1, 13), upsert(2, 2, a="own"), upsert(3, 4, a="nul \x00")])
    one.close()
    assert run(postgres, "SELECT id, a, twice FROM t ORDER BY id") == [(1, "dflt", 2), (2, "own", 4)]
    assert [(offset, error.split(" CONTEXT")[0]) for offset, error in dead(postgres)] == [
        (1, "not 13"), (3, "PostgreSQL text fields cannot contain NUL (0x00) bytes")
    ]  # fmt: skip


def test_a_database_that_is_killed_loses_only_what_was_not_committed(postgres, postgres_server):
    run(postgres, TABLE)
    one = writer(postgres)
    one.write(0, [upsert(0, 1, name="a", n=1)])
    postgres_server.kill()
    try:
        with pytest.raises(TransientError), database_errors(postgres):
            one.write(0, [upsert(1, 2, name="b", n=1)])
    finally:
        postgres_server.start()
    again = writer(postgres)
    again.write(0, [upsert(0, 1, name="a", n=1), upsert(1, 2, name="b", n=1)])
    again.close()
    assert run(postgres, "SELECT id FROM t ORDER BY id") == [(1,), (2,)]
    assert kept(postgres) == (2, 2, 0, 0)
