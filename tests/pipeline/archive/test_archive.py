"""Topics become tables: every committed record exactly once, and a reason for every other offset."""

import random
import threading
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from odradek.pipeline import archive, compact, open_table, read_table
from odradek.pipeline.archiving.planning import Start
from odradek.pipeline.cluster import Cluster
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.table.log import FencedError, Log
from odradek.pipeline.topic_partition import LATEST, TopicPartition
from odradek.pipeline.wire_client import WireClient
from tests.pipeline.archive import topics
from tests.pipeline.archive.topics import (
    TIME_MS,
    counts_by_offset,
    create,
    produce,
    produce_transactions,
    rows,
    topic_rows,
)


def skipped(report: Any) -> dict[str, int]:
    return dict(report.skipped)


def test_a_table_has_what_the_topic_has_once(spark, connection, tmp_path):
    """Committed and aborted transactions, several batches, two runs, and the same files for Spark's own reader."""
    create(connection, "t", 3)
    produce(connection, "t", [b"v%d" % number for number in range(700)])
    produce_transactions(connection, "t", [True, False, True])
    path = str(tmp_path / "table")
    first = archive(spark, "t", path, connection=connection, max_offsets=400, group="lag")
    assert first.complete
    assert (first.written, skipped(first)) == (710, {"aborted": 5, "transaction marker": 3})
    assert first.details["batches"] == 2
    assert rows(read_table(spark, path), *topics.COLUMNS) == topic_rows(spark, connection, "t")
    produce(connection, "t", [b"more", None], partition=1)
    second = archive(spark, "t", path, connection=connection, group="lag")
    assert [(one.partition, one.written) for one in second.partitions] == [(1, 2)]
    assert archive(spark, "t", path, connection=connection).partitions == []
    expected = topic_rows(spark, connection, "t")
    assert rows(read_table(spark, path), *topics.COLUMNS) == rows(spark.read.parquet(path), *topics.COLUMNS) == expected
    assert {row[:3] for row in expected} == set(counts_by_offset(read_table(spark, path)))
    with Cluster(connection) as cluster:
        assert cluster.committed("lag") == open_table(path).offsets


def test_files_are_in_order_and_in_directories(spark, connection, tmp_path):
    create(connection, "t", 2)
    produce(connection, "t", [b"%d" % number for number in range(3_000)])
    path = tmp_path / "table"
    archive(spark, "t", str(path), connection=connection, partition_by="hour")
    files = list(open_table(path).files)
    assert len({file.rpartition("/")[0] for file in files}) == 51
    assert files[0].startswith("date=2023-11-14/hour=22/")
    frame = read_table(spark, path)
    assert frame.where("date != to_date(timestamp) or hour != hour(timestamp)").count() == 0
    for file in files[:5]:
        found = [tuple(row) for row in spark.read.parquet(str(path / file)).select("partition", "offset").collect()]
        assert found == sorted(found)


def test_the_target_size_is_that_of_files(spark, connection, tmp_path):
    """Until the table has statistics, a record is assumed to take 1,000 bytes."""
    create(connection, "t", 2)
    for partition in range(2):
        produce(connection, "t", [b"x"] * 150, partition)
    for target_size_bytes, files in ((1_000_000, 1), (50_000, 6)):
        path = tmp_path / str(target_size_bytes)
        archive(spark, "t", str(path), connection=connection, target_size_bytes=target_size_bytes)
        assert len(open_table(path).files) == files
    largest = max(file.size_bytes for file in open_table(path).files.values())
    assert compact(spark, path, target_size_bytes=3 * largest).details["files_after"] == 2
    assert compact(spark, path).details["files_after"] == 1
    assert len(counts_by_offset(read_table(spark, path))) == read_table(spark, path).count() == 300


def test_it_begins_at_the_given_start(spark, connection, tmp_path):
    create(connection, "t", 2)
    produce(connection, "t", [b"x"] * 10, partition=0)
    produce(connection, "t", [b"x"] * 10, partition=1)
    for name, start, expected in (
        ("time", Start(TIME_MS + 6 * 60_000), [6, 6]),
        ("json", Start(places={TopicPartition("t", 0): 8, TopicPartition("t", 1): LATEST}), [8, 10]),
        ("latest", Start(LATEST), [10, 10]),
    ):
        path = str(tmp_path / name)
        report = archive(spark, "t", path, connection=connection, start=start)
        assert [one.from_offset for one in report.partitions] == expected
        assert read_table(spark, path).count() == sum(10 - offset for offset in expected)
    produce(connection, "t", [b"y"])
    assert archive(spark, "t", str(tmp_path / "latest"), connection=connection).written == 1


def test_records_deleted_by_retention_are_reported(spark, connection, tmp_path):
    create(connection, "t")
    produce(connection, "t", [b"x"] * 20)
    with WireClient(connection) as client:
        client.delete_records({TopicPartition("t", 0): 3})
        path = str(tmp_path / "table")
        first = archive(spark, "t", path, connection=connection)
        assert (first.complete, skipped(first)) == (True, {"deleted before the first run": 3})
        produce(connection, "t", [b"y"] * 10)
        client.delete_records({TopicPartition("t", 0): 24})
        second = archive(spark, "t", path, connection=connection)
        assert (second.complete, second.written, skipped(second)) == (False, 6, {"lost to retention": 4})
        assert "t-0: 4 offsets between 20 and 30 were deleted by retention" in second.notes[0]
        client.delete_records({TopicPartition("t", 0): 30})
        produce(connection, "t", [b"z"])
        client.delete_records({TopicPartition("t", 0): 31})
        third = archive(spark, "t", path, connection=connection, allow_loss=True)
        assert (third.complete, third.written, skipped(third)) == (True, 0, {"lost to retention": 1})


def test_retention_that_overtakes_a_batch_is_reported(spark, connection, tmp_path, monkeypatch):
    """The records are deleted between the plan and the read, which fails and is planned again."""
    from odradek.pipeline.archiving import batch, job

    create(connection, "t")
    produce(connection, "t", [b"x"] * 20)
    path = str(tmp_path / "table")
    archive(spark, "t", path, connection=connection)
    produce(connection, "t", [b"x"] * 20)
    read, calls = batch.read_topics, list[int]()

    def overtaken(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            with WireClient(connection) as client:
                client.delete_records({TopicPartition("t", 0): 33})
        return read(*arguments)

    monkeypatch.setattr(batch, "read_topics", overtaken)
    monkeypatch.setattr(job.Once, "pause", lambda *_: None)
    report = archive(spark, "t", path, connection=connection)
    assert len(calls) == 2
    assert (report.complete, report.written, skipped(report)) == (False, 7, {"lost to retention": 13})


def test_a_topic_that_grows_goes_on_and_one_that_was_made_anew_does_not(spark, connection, tmp_path):
    create(connection, "t")
    produce(connection, "t", [b"x"] * 3)
    path = str(tmp_path / "table")
    archive(spark, "t", path, connection=connection, start=Start(LATEST))
    admin = AdminClient(connection.for_librdkafka())
    admin.create_partitions([NewPartitions("t", 2)])["t"].result()
    produce(connection, "t", [b"y"] * 4, partition=1)
    assert archive(spark, "t", path, connection=connection, start=Start(LATEST)).written == 4
    admin.delete_topics(["t"])["t"].result()
    with pytest.raises(PipelineError, match="has no topic 't'"):
        archive(spark, "t", path, connection=connection)
    create(connection, "t")
    with pytest.raises(PipelineError, match="was deleted and created again"):
        archive(spark, "t", path, connection=connection)
    assert open_table(path).records == 4


def test_a_topic_that_is_deleted_meanwhile_ends_the_job(spark, connection, tmp_path, monkeypatch):
    from odradek.pipeline.archiving import batch

    create(connection, "t")
    produce(connection, "t", [b"x"] * 3)
    read, admin = batch.read_topics, AdminClient(connection.for_librdkafka())

    def deleted(*arguments: Any) -> Any:
        frame = read(*arguments)
        admin.delete_topics(["t"])["t"].result()
        return frame

    monkeypatch.setattr(batch, "read_topics", deleted)
    with pytest.raises(PipelineError, match="has no topic 't'"):
        archive(spark, "t", str(tmp_path / "table"), connection=connection)
    assert open_table(tmp_path / "table").records == 0


def test_folders_of_others_and_other_settings_are_refused(spark, connection, tmp_path):
    create(connection, "t")
    produce(connection, "t", [b"x"])
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("mine")
    with pytest.raises(PipelineError, match="is no table of `odradek pipeline archive`"):
        archive(spark, "t", str(foreign), connection=connection)
    assert [path.name for path in foreign.iterdir()] == ["thesis.txt"]
    with pytest.raises(PipelineError, match="is a file"):
        archive(spark, "t", str(foreign / "thesis.txt"), connection=connection)
    path = str(tmp_path / "table")
    archive(spark, "t", path, connection=connection)
    with pytest.raises(PipelineError, match="--partition-by none, not date"):
        archive(spark, "t", path, connection=connection, partition_by="date")


def test_a_second_archive_fences_the_first(spark, connection, tmp_path, monkeypatch):
    """The second one runs completely while the first has staged its batch and not committed it."""
    from odradek.pipeline.archiving import job

    create(connection, "t")
    produce(connection, "t", [b"x"] * 50)
    path = str(tmp_path / "table")
    check, calls = job.check_counts, list[int]()

    def meanwhile(ranges: Any) -> None:
        check(ranges)
        calls.append(1)
        if len(calls) == 1:
            assert archive(spark, "t", path, connection=connection).written == 50

    monkeypatch.setattr(job, "check_counts", meanwhile)
    with pytest.raises((FencedError, PipelineError), match="has taken this table over"):
        archive(spark, "t", path, connection=connection)
    assert (
        counts_by_offset(read_table(spark, path))
        == counts_by_offset(spark.read.parquet(path))
        == {("t", 0, n): 1 for n in range(50)}
    )


def test_a_broker_that_restarts_is_waited_for(spark, broker, connection, tmp_path, monkeypatch):
    """It stops between the plan of the second batch and its read, and is back while the job retries."""
    from odradek.pipeline.archiving import batch

    create(connection, "t", 2)
    produce(connection, "t", [b"x"] * 400)
    read, back = batch.read_topics, list[threading.Timer]()

    def restarted(*arguments: Any) -> Any:
        frame = read(*arguments)
        if read_table(spark, tmp_path / "table").count() and not back:
            broker.stop()
            back.append(threading.Timer(2.0, broker.start))
            back[0].start()
        return frame

    monkeypatch.setattr(batch, "read_topics", restarted)
    report = archive(spark, "t", str(tmp_path / "table"), connection=connection, max_offsets=150)
    back[0].join()
    assert (report.complete, report.written) == (True, 400)
    assert set(counts_by_offset(read_table(spark, tmp_path / "table")).values()) == {1}


def test_small_files_are_merged_beside_an_archive(spark, connection, tmp_path, monkeypatch):
    create(connection, "t", 2)
    path = tmp_path / "table"
    for _ in range(4):
        produce(connection, "t", [b"x"] * 30)
        archive(spark, "t", str(path), connection=connection, partition_by="date")
    add, calls = Log.add, list[int]()

    def meanwhile(log: Log, entry: Any, check: Any) -> Any:
        if entry.role == "compact" and not calls:
            calls.append(1)
            produce(connection, "t", [b"y"] * 5)
            assert archive(spark, "t", str(path), connection=connection, partition_by="date").written == 5
        return add(log, entry, check)

    before = len(open_table(path).files)
    monkeypatch.setattr(Log, "add", meanwhile)
    report = compact(spark, path)
    assert (report.written, report.details["files_merged"]) == (120, before)
    assert len(open_table(path).files) == 2
    expected = topic_rows(spark, connection, "t")
    assert (
        rows(read_table(spark, path), *topics.COLUMNS)
        == rows(spark.read.parquet(str(path)), *topics.COLUMNS)
        == expected
    )
    archive(spark, "t", str(path), connection=connection, partition_by="date")
    assert compact(spark, path).details["files_after"] == 1
    assert compact(spark, path).details["files_merged"] == 0


def test_compacted_offsets_are_explained(spark, connection, tmp_path):
    """Batches with gaps, as in a compacted topic, imported unchanged."""
    from odradek.wire.records.builder import SimpleRecord, build_batch

    create(connection, "t", cleanup_policy="compact")
    one = SimpleRecord(b"k", b"v", TIME_MS)
    with WireClient(connection) as client:
        partition = TopicPartition("t", 0)
        client.import_batches({partition: build_batch([one, one], base_offset=5)})
        client.import_batches({partition: build_batch([one], base_offset=9)})
    report = archive(spark, "t", str(tmp_path / "table"), connection=connection)
    assert (report.complete, report.written) == (True, 3)
    assert report.partitions[0].to_offset == 10
    assert sum(report.skipped.values()) == 7


def test_a_full_disk_is_reported_and_the_next_run_continues(spark, connection, tmp_path, small_disk: Path):
    create(connection, "t", 2)
    produce(connection, "t", [b"%d" % number * 20 for number in range(2_000)])
    path = small_disk / "table"
    archive(spark, "t", str(path), connection=connection, max_offsets=200, start=Start(LATEST))
    produce(connection, "t", [random.randbytes(3_000) for _ in range(2_000)])
    with pytest.raises(PipelineError, match="no space left on the device"):
        archive(spark, "t", str(path), connection=connection, max_offsets=300)
    written = open_table(path).records
    assert 0 < written < 2_000
    (small_disk / "ballast").unlink()
    assert archive(spark, "t", str(path), connection=connection).written == 2_000 - written
    assert len(counts_by_offset(read_table(spark, path))) == read_table(spark, path).count() == 2_000
