"""Load, export, transform and audit with a real Kafka: its transactions, its offsets and its stored batches."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid1

import pytest
from sqlalchemy import NullPool, create_engine, text

from compat_tests.brokers import Broker
from compat_tests.comparison import Comparison
from odradek.pipeline import Export, Load, audit, export, load, mirror, transform
from odradek.pipeline.connection import Connection
from odradek.pipeline.transforming.query import from_sql
from tests.pipeline.archive import topics
from tests.pipeline.restore.restore_tables import records_of

pytestmark = [pytest.mark.timeout(300), pytest.mark.spark]


@pytest.fixture
def topic() -> str:
    return f"job-{uuid1().hex}"


@pytest.fixture
def connection(real_kafka: Broker) -> Connection:
    return Connection(real_kafka.bootstrap)


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/test.db"


def run(url: str, *statements: str) -> list[tuple[object, ...]]:
    """The rows of the last statement."""
    with create_engine(url, poolclass=NullPool).begin() as connection:
        for statement in statements:
            result = connection.execute(text(statement))
        return [tuple(row) for row in result] if result.returns_rows else []


def committed(connection: Connection, topic: str, partitions: int = 1) -> list[bytes | None]:
    return [one.value for one in records_of(connection.bootstrap, topic, partitions, isolation="read_committed")]


def fill(connection: Connection, topic: str, partitions: int, count: int) -> None:
    """JSON with numbers, and two transactions, one of which is aborted."""
    topics.create(connection, topic, partitions)
    topics.produce(connection, topic, [b'{"id":%d}' % number for number in range(count)])
    topics.produce_transactions(connection, topic, [True, False])
    topics.await_markers(connection, topic)


def test_a_table_is_loaded_once(comparison: Comparison, connection: Connection, topic: str, database: str):
    run(database, "CREATE TABLE t (id BIGINT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2), (3)")
    topics.create(connection, topic)
    what, spark = Load(database, "t", topic, incrementing="id", batch_rows=2), comparison.resources.spark()
    assert load(spark, connection, what).written == 3
    run(database, "INSERT INTO t VALUES (4)")
    assert [load(spark, connection, what).written for _ in range(2)] == [1, 0]
    assert [json.loads(value or b"")["id"] for value in committed(connection, topic)] == [1, 2, 3, 4]


def test_committed_records_are_exported_once(comparison: Comparison, connection: Connection, topic: str, database: str):
    fill(connection, topic, 2, 50)
    what, spark = Export(topic, database, "t", mode="append", group=f"{topic}-lag"), comparison.resources.spark()
    first, second = export(spark, connection, what), export(spark, connection, what)
    assert (first.complete, first.written, first.skipped["dead letter"], second.written) == (True, 50, 5, 0)
    assert sorted(run(database, "SELECT id FROM t")) == [(number,) for number in range(50)]


def test_a_topic_is_transformed_once(comparison: Comparison, connection: Connection, topic: str):
    fill(connection, topic, 2, 60)
    query = from_sql("SELECT key, value FROM records WHERE CAST(value AS STRING) LIKE '{%'")

    def once() -> int:
        spark, target = comparison.resources.spark(), f"{topic}-to"
        return transform(spark, query, connection=connection, from_topic=topic, to_topic=target, batch=40).written

    assert once() == 60
    topics.produce(connection, topic, [b'{"id":60}'])
    assert [once(), once()] == [1, 0]
    found = [json.loads(value or b"")["id"] for value in committed(connection, f"{topic}-to", 2)]
    assert sorted(found) == list(range(61))


def test_a_topic_is_audited_and_is_as_its_mirror(comparison: Comparison, connection: Connection, topic: str):
    fill(connection, topic, 2, 300)
    copy = Connection(comparison.odradek.bootstrap)
    mirror(connection, copy, topics=topic, shown=False)
    report = audit(connection, topic, against=(copy, topic))
    assert report.complete, report.notes
    assert (report.read, report.written) == (310, 305)
    assert dict(report.skipped) == {"transaction marker": 2}
    assert any("identical, 305 records compared" in note for note in report.notes)
