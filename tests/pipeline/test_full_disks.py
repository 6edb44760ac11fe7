"""The target's disk fills up during a job: the job ends with an error in one line, and the next run continues."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer

import odradek
from odradek.pipeline import Load, load
from odradek.pipeline.cluster import Cluster
from odradek.pipeline.connection import Connection
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.mirroring import job as mirroring
from odradek.pipeline.restoring.job import restore
from odradek.testing import TestBroker
from tests.pipeline.restore.restore_tables import Archived, records_of, write_table
from tests.pipeline.small_disk import small_file_system

ROWS = [Archived(0, offset, b"%06d" % offset * 200) for offset in range(6_000)]
"""More data than the disk has space for while the ballast is there."""
KEPT = {"retention.ms": "-1"}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MB of which 18 MB are taken by a file `ballast`."""
    with small_file_system(tmp_path / "disk", 24, 18) as folder:
        yield folder


@pytest.fixture
def full(disk: Path) -> Iterator[TestBroker]:
    """A durable broker on the small disk."""
    with odradek.broker(disk / "data") as running:
        yield running


def hurried(broker: TestBroker) -> Connection:
    return Connection(broker.bootstrap, timeout_s=3)


def test_restore(spark, full: TestBroker, disk: Path, tmp_path: Path):
    table = write_table(tmp_path / "table", ROWS)
    report = restore(spark, table, connection=hurried(full), to_topic="t")
    assert not report.complete
    assert "KAFKA_STORAGE_ERROR" in report.notes[0]
    (disk / "ballast").unlink()
    again = restore(spark, table, connection=Connection(full.bootstrap), to_topic="t")
    assert again.complete, again.notes
    assert records_of(full.bootstrap, "t") == ROWS


def test_mirror(full: TestBroker, disk: Path, connection: Connection, monkeypatch: pytest.MonkeyPatch):
    with Cluster(connection) as cluster:
        cluster.create_topic("t", 1, KEPT)
    producer = Producer(connection.for_librdkafka())
    for row in ROWS:
        producer.produce("t", row.value, timestamp=row.timestamp_ms)
        producer.poll(0)
    assert producer.flush(60) == 0
    with monkeypatch.context() as patched:
        patched.setattr(mirroring, "RETRY_LIMIT_S", 2.0)
        with pytest.raises(PipelineError, match=r"the target takes nothing: t-0: KAFKA_STORAGE_ERROR"):
            mirroring.mirror(connection, hurried(full), shown=False)
    (disk / "ballast").unlink()
    report = mirroring.mirror(connection, Connection(full.bootstrap), shown=False)
    assert report.complete, report.notes
    assert records_of(full.bootstrap, "t") == ROWS


def test_load(spark, full: TestBroker, disk: Path, tmp_path: Path):
    path = tmp_path / "source.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, a TEXT)")
        database.executemany("INSERT INTO t VALUES (?, hex(randomblob(600)))", ((number,) for number in range(6_000)))
        database.commit()
    what = Load(f"sqlite:///{path}", "t", "t", incrementing="id", batch_rows=200)
    with pytest.raises(PipelineError, match="the broker takes nothing: is its disk full"):
        load(spark, hurried(full), what)
    (disk / "ballast").unlink()
    assert load(spark, Connection(full.bootstrap), what).complete
    found = [json.loads(one.value or b"")["id"] for one in records_of(full.bootstrap, "t", isolation="read_committed")]
    assert sorted(found) == list(range(6_000))
