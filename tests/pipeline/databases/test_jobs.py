"""Load and export as whole jobs on Spark."""

import json

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from sqlalchemy import NullPool, create_engine, text
from test_sending import committed

from odradek.gateway.cli.output import meter
from odradek.pipeline import Export, Load, export, load
from odradek.pipeline.cluster import Cluster
from odradek.pipeline.connection import Connection
from odradek.pipeline.databases.bookkeeping import FencedExportError
from odradek.pipeline.errors import MissingError, PipelineError
from odradek.pipeline.exporting import Exporter
from odradek.pipeline.topic_partition import TopicPartition
from odradek.pipeline.wire_client import WireClient
from odradek.wire.records.builder import SimpleRecord, build_batch

GAPS = "transaction marker, aborted or compacted"


def run(url: str, *statements: str) -> list[tuple[object, ...]]:
    """The rows of the last statement."""
    with create_engine(url, poolclass=NullPool).begin() as connection:
        for statement in statements:
            result = connection.execute(text(statement))
        return [tuple(row) for row in result] if result.returns_rows else []


def produce(bootstrap: str, topic: str, *records: tuple[bytes | None, bytes | None]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for key, value in records:
        producer.produce(topic, value, key)
    assert producer.flush(30) == 0


def test_a_table_is_loaded_in_order_and_once(spark, connection, broker, database):
    run(database, "CREATE TABLE t (id BIGINT PRIMARY KEY, a BIGINT)", "INSERT INTO t VALUES (1, 1), (2, 4), (3, 9)")
    what = Load(database, "t", "t", incrementing="id", batch_rows=1)
    first = load(spark, connection, what)
    run(database, "INSERT INTO t VALUES (4, 16), (5, NULL)")
    second, third = load(spark, connection, what), load(spark, connection, what)
    assert [one.written for one in (first, second, third)] == [3, 2, 0]
    assert [one.as_json()["rows_in_all"] for one in (first, second, third)] == [3, 5, 5]
    found = [json.loads(value) for _, value in committed(broker.bootstrap, "t")]
    assert found == [{"id": n, "a": n * n if n < 5 else None} for n in range(1, 6)]


def test_bulk_loads_a_table_once_with_a_key_or_without(spark, connection, broker, sqlite):
    run(sqlite, "CREATE TABLE keyed (a TEXT, b BIGINT, PRIMARY KEY (a, b))", "CREATE TABLE free (a TEXT)")
    run(sqlite, "INSERT INTO keyed VALUES ('x', 1), ('x', 2), ('w', 3)")
    run(sqlite, "INSERT INTO free VALUES ('x'), (NULL), ('x')")
    for table, rows in (("keyed", 3), ("free", 3)):
        what = Load(sqlite, table, table, batch_rows=2)
        assert [load(spark, connection, what).written for _ in range(2)] == [rows, 0]
    assert [key for key, _ in committed(broker.bootstrap, "keyed")] == [
        b'{"a":"w","b":3}', b'{"a":"x","b":1}', b'{"a":"x","b":2}'
    ]  # fmt: skip
    assert committed(broker.bootstrap, "free") == [(None, b'{"a":"x"}'), (None, b'{"a":null}'), (None, b'{"a":"x"}')]


def test_another_way_to_go_by_is_another_job(spark, connection, sqlite):
    run(sqlite, "CREATE TABLE t (id BIGINT PRIMARY KEY, b BIGINT)", "INSERT INTO t VALUES (1, NULL)")
    load(spark, connection, Load(sqlite, "t", "t", incrementing="id"))
    with pytest.raises(
        PipelineError, match="went by incrementing by id, this is incrementing by b: name another --job"
    ):
        load(spark, connection, Load(sqlite, "t", "t", incrementing="b"))
    report = load(spark, connection, Load(sqlite, "t", "t", incrementing="b", job="other"))
    assert (report.complete, report.notes) == (False, ["1 rows have NULL in b, so that the load never comes to them"])


def test_a_table_is_made_for_what_json_holds(spark, connection, broker, database):
    values = [
        {"id": 1, "n": 1, "x": 1, "words": "a", "ok": True, "nothing": None, "sub": {"a": [1.50]}, "mixed": 1},
        {"id": 2, "n": 2, "x": 1.5, "words": "b", "mixed": "m"},
    ]
    produce(broker.bootstrap, "t", *((json.dumps({"id": v["id"]}).encode(), json.dumps(v).encode()) for v in values))
    report = export(spark, connection, Export("t", database, "made", key=("id",), group="progress"))
    assert (report.written, report.complete) == (2, True)
    rows = run(database, 'SELECT id, n, x, words, ok, "nothing" FROM made ORDER BY id')
    assert rows == [(1, 1, 1.0, "a", True, None), (2, 2, 1.5, "b", None, None)]
    stored = [one for (one,) in run(database, "SELECT CAST(mixed AS VARCHAR) FROM made ORDER BY id")]
    assert stored == ["1", '"m"']
    with Cluster(connection) as cluster:
        assert cluster.committed("progress") == {TopicPartition("t", 0): 2}
    produce(broker.bootstrap, "t", (b'{"id":1}', None), (b'{"id":3}', b'{"n":"poison"}'), (b'{"id":4}', b'{"n":4}'))
    again = export(spark, connection, Export("t", database, "made", key=("id",)))
    assert (again.read, again.written, again.skipped) == (3, 2, {"dead letter": 1})
    assert again.notes == ["1 records are in odradek_dead_letters, with the reason"]
    assert run(database, "SELECT id FROM made ORDER BY id") == [(2,), (4,)]


def test_only_committed_records_are_appended(spark, connection, broker, sqlite):
    def transaction(value: bytes, *, commit: bool) -> None:
        producer.begin_transaction()
        producer.produce("t", value)
        producer.flush()
        producer.commit_transaction() if commit else producer.abort_transaction()

    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "x"})
    producer.init_transactions()
    transaction(b'{"a":1}', commit=True)
    transaction(b'{"a":2}', commit=False)
    transaction(b'{"a":3}', commit=True)
    report = export(spark, connection, Export("t", sqlite, "t", mode="append"))
    assert run(sqlite, "SELECT * FROM t ORDER BY kafka_offset") == [("t", 0, 0, 1), ("t", 0, 4, 3)]
    assert (report.written, report.skipped, report.partitions[0].to_offset) == (2, {GAPS: 4}, 6)


def test_what_does_not_fit_is_refused_before_anything_is_written(spark, connection, broker, sqlite, tmp_path):
    produce(broker.bootstrap, "t", (b'{"id":1}', b'{"id":1}'))
    run(sqlite, "CREATE TABLE keyless (id BIGINT)", "CREATE TABLE keyed (id BIGINT PRIMARY KEY, a TEXT)")
    schema = tmp_path / "s.avsc"
    schema.write_text('{"type":"record","name":"r","fields":[{"name":"b","type":"long"}]}')
    refused = {
        "there is no table 'new' yet: --key names": Export("t", sqlite, "new"),
        "no record has the key column 'no'": Export("t", sqlite, "new", key=("no",), key_from_value=True),
        "no primary key and no unique constraint of just id": Export("t", sqlite, "keyless", key=("id",)),
        "no column 'b', which the schema has": Export("t", sqlite, "keyed", schema=schema),
        "Spark's JDBC sink cannot": Export("t", "jdbc:derby:x", "t"),
        "has no topic 'missing'": Export("missing", sqlite, "keyed"),
    }
    for said, what in refused.items():
        with pytest.raises(PipelineError) as failed:
            export(spark, connection, what)
        assert said in failed.value.message
    assert run(sqlite, "SELECT count(*) FROM keyed") == [(0,)]


def test_records_deleted_before_they_were_exported_are_reported(spark, connection, broker, sqlite):
    records = [(b'{"id":%d}' % n, b'{"n":%d}' % n) for n in range(10)]
    produce(broker.bootstrap, "t", *records[:3])
    what = Export("t", sqlite, "t", key=("id",))
    assert export(spark, connection, what).complete
    produce(broker.bootstrap, "t", *records[3:])
    with WireClient(connection) as client:
        client.delete_records({TopicPartition("t", 0): 7})
    report = export(spark, connection, what)
    assert (report.complete, report.written, dict(report.skipped)) == (False, 3, {"deleted before it was read": 4})
    assert report.notes == ["4 offsets were deleted from the topic before this export came to them"]
    assert run(sqlite, "SELECT id FROM t ORDER BY id") == [(n,) for n in (0, 1, 2, 7, 8, 9)]
    assert export(spark, connection, what).complete


def test_each_loss_of_a_continuous_export_is_reported(connection, broker, sqlite):
    """No record is left to read, so that Spark is not needed."""
    broker.create_topic("t", 2)
    places = [TopicPartition("t", partition) for partition in range(2)]
    exporter = Exporter(None, connection, Export("t", sqlite, "t"))
    with WireClient(connection) as client, meter("", None, shown=False) as bar:
        for first, end in ((0, 4), (4, 9)):
            records = [SimpleRecord(b"k", b"v", 5)] * (end - first)
            client.import_batches(dict.fromkeys(places, build_batch(records, base_offset=first)))
            client.delete_records(dict.fromkeys(places, end))
            for _ in range(2):
                assert exporter.waiting() == 0
                exporter.run(bar)
            reports = [(one.to_offset, dict(one.skipped)) for one in exporter.report().partitions]
            assert reports == [(end, {"deleted before it was read": end})] * 2
    assert exporter.report().notes == ["18 offsets were deleted from the topic before this export came to them"]
    assert export(None, connection, Export("t", sqlite, "t")).complete


def test_a_loss_is_counted_once_while_its_export_fails(connection, broker, sqlite):
    broker.create_topic("t", 1)
    place = TopicPartition("t", 0)
    exporter = Exporter(None, connection, Export("t", sqlite, "t"))
    with WireClient(connection) as client:
        client.import_batches({place: build_batch([SimpleRecord(b"k", b"v", 5)] * 9, base_offset=0)})
        for start in (4, 7):
            client.delete_records({place: start})
            assert [exporter.waiting() for _ in range(2)] == [9 - start] * 2
            assert exporter.report().skipped["deleted before it was read"] == start


def test_an_export_that_another_has_replaced_ends_also_when_partitions_are_new(connection, broker, sqlite):
    broker.create_topic("t", 1)
    first = Exporter(None, connection, Export("t", sqlite, "t"))
    second = Exporter(None, connection, Export("t", sqlite, "t"))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_partitions([NewPartitions("t", 2)])["t"].result()
    for _ in range(2):
        with pytest.raises(FencedExportError, match="another export of job 't-t' has begun"):
            first.waiting()
    assert second.waiting() == 0
    assert run(sqlite, "SELECT count(*) FROM odradek_offsets") == [(2,)]


def test_poisoned_records_are_kept_with_the_reason_and_large_ones_written(spark, broker, sqlite):
    broker.create_topic("t", 1, {"max.message.bytes": 10_000_000})
    connection = Connection(broker.bootstrap, {"message.max.bytes": "10000000"})
    large = json.dumps({"words": "x" * 5_000_000}).encode()
    poison = [(b'{"id":2}', b"not JSON"), (b"not JSON", b"{}"), (None, None), (b'{"id":3}', b"\xff\xfe"), (None, b"{}")]
    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.max.bytes": 10_000_000})
    for key, value in [(b'{"id":1}', large), *poison, (b'{"id":4}', b'{"words":"y"}')]:
        producer.produce("t", value, key)
    assert producer.flush(30) == 0
    run(sqlite, "CREATE TABLE t (id BIGINT PRIMARY KEY, words TEXT)")
    report = export(spark, connection, Export("t", sqlite, "t"))
    assert (report.written, report.skipped) == (2, {"dead letter": len(poison)})
    assert run(sqlite, "SELECT id, length(words) FROM t ORDER BY id") == [(1, 5_000_000), (4, 1)]
    assert run(sqlite, "SELECT count(*) FROM odradek_dead_letters") == [(len(poison),)]


def test_a_full_disk_ends_an_export_and_the_next_one_goes_on(spark, connection, broker, small_disk):
    url = f"sqlite:///{small_disk}/test.db"
    words = "x" * 2_000
    records = [(b'{"id":%d}' % n, json.dumps({"words": words}).encode()) for n in range(3_000)]
    produce(broker.bootstrap, "t", *records)
    what = Export("t", url, "t", key=("id",), batch_rows=100)
    with pytest.raises(PipelineError, match="disk is full"):
        export(spark, connection, what)
    assert 0 < run(url, "SELECT count(*) FROM t")[0][0] < 3_000
    (small_disk / "ballast").unlink()
    assert export(spark, connection, what).complete
    assert run(url, "SELECT count(*), count(DISTINCT id), min(length(words)) FROM t") == [(3_000, 3_000, 2_000)]
    assert run(url, "SELECT written FROM odradek_offsets") == [(3_000,)]


def test_a_topic_that_was_made_anew_is_not_taken_for_the_old_one(spark, connection, broker, sqlite):
    produce(broker.bootstrap, "t", *[(b'{"id":1}', b"{}")] * 3)
    export(spark, connection, Export("t", sqlite, "t", key=("id",)))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics(["t"])["t"].result()
    produce(broker.bootstrap, "t", (b'{"id":2}', b"{}"))
    with pytest.raises(PipelineError, match="was the topic made anew"):
        export(spark, connection, Export("t", sqlite, "t", key=("id",)))


def test_a_database_is_loaded_through_spark_and_jdbc(spark, connection, broker, tmp_path):
    url = f"jdbc:derby:{tmp_path}/shop;create=true"
    spark._jvm.java.lang.System.setProperty("derby.stream.error.file", f"{tmp_path}/derby.log")  # noqa: SLF001
    manager = spark._jvm.java.sql.DriverManager  # noqa: SLF001 - the driver that Spark has
    statement = manager.getConnection(url).createStatement()
    statement.execute("CREATE TABLE t (id BIGINT, price DECIMAL(9,2), changed TIMESTAMP, raw VARCHAR(4) FOR BIT DATA)")
    statement.execute(
        "INSERT INTO t VALUES (1, 1.10, TIMESTAMP('2024-01-01 00:00:00.5'), X'00ff'), (2, NULL, NULL, NULL), "
        "(3, 0.01, TIMESTAMP('2024-01-02 00:00:00'), NULL), (NULL, 5, NULL, NULL)"
    )
    what = Load(url, "t", "t", incrementing="ID", key=("ID",), batch_rows=2)
    first, second = load(spark, connection, what), load(spark, connection, what)
    assert ([first.written, second.written], first.complete) == ([3, 0], False)
    assert committed(broker.bootstrap, "t") == [
        (b'{"ID":1}', b'{"ID":1,"PRICE":"1.10","CHANGED":"2024-01-01T00:00:00.500000","RAW":"AP8="}'),
        (b'{"ID":2}', b'{"ID":2,"PRICE":null,"CHANGED":null,"RAW":null}'),
        (b'{"ID":3}', b'{"ID":3,"PRICE":"0.01","CHANGED":"2024-01-02T00:00:00.000000","RAW":null}'),
    ]
    by_time = load(spark, connection, Load(url, "t", "u", timestamp=("CHANGED",), key=()))
    assert [json.loads(value)["ID"] for _, value in committed(broker.bootstrap, "u")] == [1, 3]
    assert not by_time.complete
    with pytest.raises(MissingError, match=r"--conf spark\.jars=FILE\.jar"):
        load(spark, connection, Load("jdbc:h2:mem:x", "t", "t", incrementing="ID"))
