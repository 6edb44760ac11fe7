"""A table is restored to a topic of an Odradek."""

from pathlib import Path
from unittest import mock

import pytest
from confluent_kafka import Producer
from restore_tables import GAPS, LOG_APPEND_TIME, ODD, Archived, bounds_of, records_of, write_table

from odradek.pipeline.archiving.job import archive
from odradek.pipeline.connection import Connection
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.report import Report
from odradek.pipeline.restoring import source
from odradek.pipeline.restoring.bounds import Bound
from odradek.pipeline.restoring.job import restore
from odradek.pipeline.restoring.renumbered import provenance_of
from odradek.pipeline.restoring.source import SCRATCH
from odradek.pipeline.values.parsing import Parsing


@pytest.fixture
def run(spark, connection: Connection, tmp_path: Path):
    """Restores a table of rows to topic `t`."""

    def run_it(rows: list[Archived], **options: object) -> Report:
        table = write_table(tmp_path / "table", rows)
        return restore(spark, table, connection=connection, **{"to_topic": "t", **options})

    return run_it


def plain(count: int, start: int = 0, partition: int = 0) -> list[Archived]:
    return [Archived(partition, offset, b"%d" % offset, timestamp_ms=offset * 10) for offset in range(start, count)]


def produce(connection: Connection, topic: str, value: bytes) -> None:
    producer = Producer(connection.for_librdkafka())
    producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0


def test_records_come_back_as_they_were(run, connection: Connection):
    stamped = [Archived(2, offset, b"at the append", None, 77, (), LOG_APPEND_TIME) for offset in (0, 1)]
    stamped.append(Archived(2, 2, b"later", None, 78, (), LOG_APPEND_TIME))
    archived = [*ODD, *GAPS, *stamped]
    report = run(archived, codec="zstd")
    assert report.complete, report.notes
    assert (report.read, report.written) == (len(archived), len(archived))
    restored = records_of(connection.bootstrap, "t", 3)
    assert restored == [one._replace(headers=tuple(one.headers)) for one in archived]
    assert bounds_of(connection.bootstrap, "t", 1) == (3, 41)

    again = run(archived)
    assert again.complete, again.notes
    assert (again.written, again.skipped) == (0, {"already there": len(archived)})
    assert records_of(connection.bootstrap, "t", 3) == restored


def test_a_longer_table_goes_on(run, connection: Connection):
    run(plain(5))
    report = run(plain(9))
    assert (report.complete, report.written, report.skipped) == (True, 4, {"already there": 5})
    assert records_of(connection.bootstrap, "t") == plain(9)


@pytest.mark.parametrize(
    ("start", "until", "offsets"),
    [
        (Bound(offset=3), Bound(offset=6), range(3, 6)),
        (Bound(offsets={0: 7}), Bound(), range(7, 10)),
        (Bound(time_ms=31), Bound(time_ms=70), range(4, 7)),
        (Bound(time_ms=1000), Bound(), range(0)),
    ],
    ids=["offsets", "offset of each partition", "times", "a time after all"],
)
def test_a_part_of_the_table(run, connection: Connection, start: Bound, until: Bound, offsets: range):
    report = run(plain(10), start=start, until=until)
    assert report.complete, report.notes
    assert [one.offset for one in records_of(connection.bootstrap, "t")] == list(offsets)
    if offsets:
        assert bounds_of(connection.bootstrap, "t") == (offsets.start, offsets.stop)


def test_parts_that_follow_each_other_are_put_together_and_none_is_left_out(run, connection: Connection):
    run(plain(10), until=Bound(offset=3))
    with pytest.raises(PipelineError, match="2 records of the table from there on would be left out"):
        run(plain(10), start=Bound(offset=5))
    run(plain(10), start=Bound(offset=3), until=Bound(offset=5))
    run(plain(10), start=Bound(offset=5))
    assert records_of(connection.bootstrap, "t") == plain(10)


def test_a_topic_with_other_records_is_refused(run, connection: Connection, broker):
    broker.create_topic("t")
    produce(connection, "t", b"not of the table")
    with pytest.raises(PipelineError, match=r"another record at offset 0 than the table.*--renumber"):
        run(plain(5))
    with pytest.raises(PipelineError, match=r"is not empty.*--renumber"):
        run(plain(5, 3))
    assert [one.value for one in records_of(connection.bootstrap, "t")] == [b"not of the table"]


def test_records_behind_the_restored_ones_are_refused_while_the_table_has_more(run, connection: Connection):
    run(plain(5))
    produce(connection, "t", b"of another producer")
    assert run(plain(5)).complete
    with pytest.raises(PipelineError, match="another record at offset 5 than the table"):
        run(plain(9))
    with pytest.raises(PipelineError, match="records that are not the table's"):
        run([*plain(5), Archived(0, 6)])


def test_what_cannot_be_is_refused(run, spark, connection: Connection, broker, tmp_path: Path):
    with pytest.raises(PipelineError, match="has no topic 'other', but source"):
        run(plain(1), from_topic="other")
    broker.create_topic("t")
    with pytest.raises(PipelineError, match="has 1 partitions, and the table 2"):
        run([*plain(1), *plain(1, partition=1)])
    with pytest.raises(PipelineError, match="has source, two: choose one with --from-topic"):
        restore(
            spark,
            write_table(tmp_path / "table", plain(1), "two"),
            connection=connection,
            to_topic="t",
        )
    frame = spark.read.parquet(str(tmp_path / "table")).drop("headers")
    with pytest.raises(PipelineError, match="no column headers"):
        restore(spark, frame, connection=connection, to_topic="t")
    with pytest.raises(PipelineError, match="is no table"):
        restore(spark, tmp_path, connection=connection, to_topic="t")


def test_a_record_that_the_table_has_twice_is_not_restored(run, connection: Connection):
    report = run([*plain(3), *plain(3)])
    assert not report.complete
    assert "offset 0 after 0" in report.notes[0]
    assert records_of(connection.bootstrap, "t") == []


def test_new_offsets_behind_what_is_there(run, connection: Connection, broker):
    broker.create_topic("t", 2)
    produce(connection, "t", b"was there")
    archived = [*plain(5), *[one._replace(partition=1) for one in GAPS]]
    assert run(archived, renumber=True).written == len(archived)
    produce(connection, "t", b"came between")
    again = run([*archived, *plain(8, 5)], renumber=True)
    assert (again.complete, again.written, again.skipped) == (True, 3, {"already there": len(archived)})

    found = records_of(connection.bootstrap, "t", 2)
    assert [one.value for one in found if not one.headers] == [b"was there", b"came between"]
    copies = [(one, provenance_of(one.headers)) for one in found if one.headers]
    assert [(of.partition, of.offset) for _, of in copies if of] == [
        (one.partition, one.offset) for one in [*plain(8), *archived[5:]]
    ]
    assert [(one.value, one.timestamp_ms) for one, _ in copies] == [
        (one.value, one.timestamp_ms) for one in [*plain(8), *archived[5:]]
    ]
    earlier = run(archived, renumber=True)
    assert (earlier.complete, earlier.written) == (True, 0)


def test_earlier_records_cannot_be_put_behind_later_ones(run):
    assert run(plain(10), renumber=True, start=Bound(offset=5)).written == 5
    report = run(plain(10), renumber=True)
    assert not report.complete
    assert "has records of source from offset 5 on" in report.notes[0]


def test_a_frame_of_spark(spark, connection: Connection, tmp_path: Path):
    table = spark.read.parquet(str(write_table(tmp_path / "table", [*plain(9), *plain(4, partition=1)])))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    spark.conf.set(SCRATCH, str(scratch))
    try:
        report = restore(spark, table.where("offset >= 2"), connection=connection, to_topic="t")
    finally:
        spark.conf.unset(SCRATCH)
    assert report.complete, report.notes
    assert records_of(connection.bootstrap, "t", 2) == [*plain(9, 2), *plain(4, 2, partition=1)]
    assert list(scratch.iterdir()) == []


def test_rows_in_no_order_at_all_are_put_in_order_by_spark(
    run, connection: Connection, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(source, "MOST_AT_ONCE_BYTES", 1)
    assert run(plain(9)).complete
    assert records_of(connection.bootstrap, "t") == plain(9)


def test_folders_that_are_columns(spark, connection: Connection, tmp_path: Path):
    table = spark.read.parquet(str(write_table(tmp_path / "table", [*plain(9), *plain(4, partition=1)])))
    table.write.partitionBy("topic", "partition").parquet(str(tmp_path / "divided"))
    report = restore(spark, tmp_path / "divided", connection=connection, to_topic="t")
    assert report.complete, report.notes
    assert records_of(connection.bootstrap, "t", 2) == [*plain(9), *plain(4, partition=1)]


def test_a_cluster_needs_a_folder_for_what_spark_writes_first():
    spark = mock.Mock()
    spark.conf.get.side_effect = lambda _name, default: default
    spark.sparkContext.master = "spark://somewhere:7077"
    with pytest.raises(PipelineError, match=r"all workers see with --conf spark\.odradek\.scratch=FOLDER"):
        source.scratch_folder(spark)
    spark.conf.get.side_effect = lambda name, default: "/shared" if name == SCRATCH else default
    assert source.scratch_folder(spark) == "/shared"


def test_an_archive_with_dead_letters(spark, connection: Connection, broker, tmp_path: Path):
    broker.create_topic("orders", 2, configs={"retention.ms": "-1"})
    values = [b"no JSON" if number % 5 == 0 else b'{"n": %d}' % number for number in range(40)]
    for value in values:
        produce(connection, "orders", value)
    table = tmp_path / "archive"
    archive(spark, "orders", str(table), connection=connection, value=Parsing("json"), partition_by="hour")
    for value in values:
        produce(connection, "orders", value)
    archive(spark, "orders", str(table), connection=connection, value=Parsing("json"), partition_by="hour")
    report = restore(spark, table, connection=connection, to_topic="again")
    assert (report.complete, report.written) == (True, 80), report.notes
    assert records_of(connection.bootstrap, "again", 2) == records_of(connection.bootstrap, "orders", 2)
    assert bounds_of(connection.bootstrap, "again", 1) == (0, 0)
