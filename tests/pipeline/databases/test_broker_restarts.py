"""The broker is restarted while a load and an export run: they continue, and each row is there exactly once."""

import json
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer
from sqlalchemy import NullPool, create_engine, text
from sqlalchemy.exc import OperationalError
from test_sending import committed

from odradek.pipeline import Export, Load, export, load
from odradek.pipeline.cluster import Cluster
from odradek.pipeline.connection import Connection
from odradek.pipeline.topic_partition import LATEST
from odradek.testing import TestBroker

ROWS = 3_000
BATCH_ROWS = 20
SMALL_FETCHES = {"max.partition.fetch.bytes": "65536"}
"""So that records are still to be fetched when the broker is back."""

Restarting = Callable[[Callable[[], bool]], threading.Thread]


@pytest.fixture
def restart_when(broker: TestBroker) -> Iterator[Restarting]:
    """Starts a thread that waits for a condition and then restarts the broker, once."""
    threads: list[threading.Thread] = []

    def begin(holds: Callable[[], bool]) -> threading.Thread:
        def run() -> None:
            while not holds():
                time.sleep(0.01)
            broker.restart()

        thread = threading.Thread(target=run)
        thread.start()
        threads.append(thread)
        return thread

    yield begin
    for thread in threads:
        thread.join(60)


def number(url: str, query: str) -> int:
    """The result of a query of one number, 0 if the table does not exist yet."""
    try:
        with create_engine(url, poolclass=NullPool).connect() as connection:
            return connection.execute(text(query)).scalar() or 0
    except OperationalError:
        return 0


def records(connection: Connection) -> int:
    with Cluster(connection) as cluster:
        if "t" not in cluster.topics():
            return 0
        return sum(cluster.offsets(dict.fromkeys(cluster.partitions(["t"]), LATEST)).values())


def test_a_load_goes_on(spark, connection, broker, sqlite, restart_when: Restarting):
    with create_engine(sqlite, poolclass=NullPool).begin() as database:
        database.execute(text("CREATE TABLE source (id BIGINT PRIMARY KEY, words TEXT)"))
        database.execute(text("INSERT INTO source VALUES (:id, :words)"), [
            {"id": id_, "words": "x" * (id_ % 50)} for id_ in range(ROWS)
        ])  # fmt: skip
    restarting = restart_when(lambda: records(connection) > 200)
    report = load(spark, connection, Load(sqlite, "source", "t", incrementing="id", batch_rows=BATCH_ROWS))
    assert not restarting.is_alive(), "it was restarted in the middle"
    assert (report.complete, report.written) == (True, ROWS)
    assert [json.loads(value)["id"] for _, value in committed(broker.bootstrap, "t")] == list(range(ROWS))
    again = load(spark, connection, Load(sqlite, "source", "t", incrementing="id", batch_rows=BATCH_ROWS))
    assert again.written == 0


def test_an_export_goes_on(spark, broker, sqlite, restart_when: Restarting):
    broker.create_topic("t", 2)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for id_ in range(ROWS):
        value = json.dumps({"id": id_, "words": f"{id_:05}" * 60})
        producer.produce("t", value, json.dumps({"id": id_}), partition=id_ % 2)
        producer.poll(0)
    assert producer.flush(30) == 0
    connection = Connection(broker.bootstrap, SMALL_FETCHES)
    what = Export("t", sqlite, "target", key=("id",), batch_rows=BATCH_ROWS)
    restarting = restart_when(lambda: number(sqlite, "SELECT sum(written) FROM odradek_offsets") > 100)
    report = export(spark, connection, what)
    assert not restarting.is_alive(), "it was restarted in the middle"
    assert (report.complete, report.written) == (True, ROWS)
    assert number(sqlite, "SELECT count(*) FROM target") == ROWS
    assert number(sqlite, "SELECT count(*) FROM target WHERE words = printf('%05d', id) || substr(words, 6)") == ROWS
    assert export(spark, connection, what).written == 0
