"""A topic is transformed into another one by SQL or a function, with each record's result exactly once."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from odradek.pipeline.cluster import Cluster
from odradek.pipeline.connection import Connection
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.report import Report
from odradek.pipeline.topic_partition import LATEST
from odradek.pipeline.transforming.job import transform
from odradek.pipeline.transforming.query import Transformation, from_function, from_sql
from odradek.pipeline.wire_client import WireClient
from tests.pipeline.restore.restore_tables import Archived, records_of

EVEN = "SELECT key, value, headers, timestamp FROM records WHERE CAST(CAST(value AS STRING) AS INT) % 2 = 0"
SAME = from_sql("SELECT key, value, headers, timestamp FROM records")


@pytest.fixture
def produce(broker, connection: Connection) -> Callable[[range], None]:
    """Fills a topic of three partitions; every eleventh record has no key."""
    broker.create_topic("from", 3, {"retention.ms": "-1"})
    settings = {**connection.for_librdkafka(), "partitioner": "murmur2_random"}

    def produce_them(numbers: range) -> None:
        producer = Producer(settings)
        for number in numbers:
            key = None if number % 11 == 0 else b"key %d" % (number % 20)
            producer.produce("from", b"%d" % number, key, headers=[("n", None)], timestamp=1_000 + number)
        assert producer.flush(30) == 0

    return produce_them


@pytest.fixture
def run(spark, connection: Connection) -> Callable[..., Report]:
    def run_it(transformation: Transformation, **options: object) -> Report:
        given = {"from_topic": "from", "to_topic": "to", **options}
        return transform(spark, transformation, connection=connection, **given)

    return run_it


def committed(connection: Connection) -> list[Archived]:
    return records_of(connection.bootstrap, "to", 3, isolation="read_committed")


def values(records: list[Archived]) -> list[int]:
    return sorted(int(one.value or b"-1") for one in records)


def test_each_result_comes_once(run, produce, connection: Connection):
    produce(range(200))
    report = run(from_sql(EVEN), batch=90)
    assert report.complete
    assert (report.read, report.written) == (200, 100)
    produce(range(200, 230))
    assert run(from_sql(EVEN)).written == 15
    assert run(from_sql(EVEN)).written == 0

    found = committed(connection)
    assert values(found) == list(range(0, 230, 2))
    source = {one.value: one for one in records_of(connection.bootstrap, "from", 3)}
    for one in found:
        was = source[one.value]
        assert (one.key, one.timestamp_ms, one.headers) == (was.key, was.timestamp_ms, was.headers)
        if one.key is not None:
            assert one.partition == was.partition, "keys are placed as by Kafka's producers"
    keyed = [one for one in found if one.key is not None]
    for key in {one.key for one in keyed}:
        assert [one.value for one in keyed if one.key == key] == [
            value for value, one in source.items() if one.key == key and int(value or b"") % 2 == 0
        ]


def test_it_goes_on_until_it_is_stopped(run, produce, connection: Connection):
    produce(range(10))
    more = iter([range(10, 20), range(20, 25)])

    def stopped(_seconds: float) -> bool:
        numbers = next(more, None)
        if numbers is not None:
            produce(numbers)
        return numbers is None

    assert run(SAME, every_s=1.0, stopped=stopped).written == 25
    assert values(committed(connection)) == list(range(25))


def explode(records):
    """A transformation that fails for some record while others are written."""
    from pyspark.sql import functions as f

    return records.withColumn("value", f.expr("IF(offset = 3, raise_error('a bad record'), value)"))


def test_a_batch_that_fails_leaves_nothing(run, produce, connection: Connection):
    produce(range(50))
    with pytest.raises(PipelineError, match="a bad record"):
        run(explode)
    assert committed(connection) == []
    assert run(SAME).written == 50
    assert values(committed(connection)) == list(range(50))


def test_records_deleted_before_they_were_read_are_reported(run, produce, connection: Connection):
    produce(range(30))
    run(SAME)
    produce(range(30, 60))
    with Cluster(connection) as cluster, WireClient(connection) as client:
        ends = cluster.offsets(dict.fromkeys(cluster.partitions(["from"]), LATEST))
        client.delete_records({partition: end - 1 for partition, end in ends.items()})
    with pytest.raises(PipelineError, match="deleted by retention and not transformed"):
        run(SAME)
    assert values(committed(connection)) == list(range(30))
    assert run(SAME, group="another").written == 3


@pytest.mark.parametrize(
    ("transformation", "said"),
    [
        (from_sql("SELECT nothing FROM records"), "nothing"),
        (from_sql("SELECT key FROM records"), "no column `value`, but key"),
        (from_sql("SELECT offset AS value FROM records"), "column `value` is bigint"),
        (from_sql("SELECT value, 7 AS partition FROM records"), "there is no partition 7, but 3"),
    ],
    ids=["not SQL", "no value", "another type", "no such partition"],
)
def test_what_makes_no_records_is_refused(run, produce, transformation: Transformation, said: str):
    produce(range(2))
    with pytest.raises(PipelineError, match=said):
        run(transformation)


def test_a_function_is_found_by_its_name():
    assert from_function("os.path:join") is os.path.join
    with pytest.raises(PipelineError, match="--function nowhere:f"):
        from_function("nowhere:f")
    with pytest.raises(PipelineError, match="is no function"):
        from_function("os:name")


KILLED = """
import os, signal, sys
from odradek.pipeline import Connection, spark_session, transform
from odradek.pipeline.transforming.query import from_sql
from odradek.pipeline.writing.transactions import Transactions

end = Transactions.end
def die(self, *, committed):
    if sys.argv[2] == "after":
        end(self, committed=committed)
    os.killpg(0, signal.SIGKILL)

Transactions.end = die
connection = Connection(sys.argv[1])
spark = spark_session(connection=connection, master="local[2]", conf={"spark.driver.memory": "1g"})
query = from_sql("SELECT key, value, headers, timestamp FROM records")
transform(spark, query, connection=connection, from_topic="from", to_topic="to")
"""


@pytest.mark.timeout(240)
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_driver_killed_beside_the_commit_is_continued(run, produce, connection: Connection, moment: str):
    produce(range(100))
    command = [sys.executable, "-c", KILLED, connection.bootstrap, moment]
    killed = subprocess.run(command, start_new_session=True, capture_output=True, text=True, timeout=200, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    with Cluster(connection) as cluster:
        assert bool(cluster.committed("odradek-transform-from-to-to")) == (moment == "after")
    assert run(SAME).written == (0 if moment == "after" else 100)
    assert values(committed(connection)) == list(range(100))
