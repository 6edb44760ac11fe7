"""Spark's ``format("kafka")``, batch and streaming, source and sink, against Odradek and Apache Kafka."""

from __future__ import annotations

import hashlib
import importlib
import json
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from compat_tests.clients import EPOCH_MS, Record, kafka_python
from compat_tests.comparison import Case, CaseBook, Comparison, Side, is_missing
from compat_tests.frames import RawConnection, batch_headers, fetch
from compat_tests.java_clients import JavaVm

BOOK = CaseBook("spark", needs="Java")
_COLUMNS = "topic, partition, offset, cast(key as string) k, cast(value as string) v, unix_millis(timestamp) t"


def source(side: Side, topic: str, **options: Any) -> Any:
    """A batch DataFrame over a topic, by default over all of it."""
    reader = side.resources.spark().read.format("kafka").option("kafka.bootstrap.servers", side.bootstrap)
    if "subscribePattern" not in options:
        reader = reader.option("subscribe", topic)
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()


def rows(frame: Any, columns: str = _COLUMNS) -> list[list[Any]]:
    """Collected, and sorted by the first three columns; sorting in Spark would read everything twice."""
    return sorted((list(row) for row in frame.selectExpr(*_split(columns)).collect()), key=lambda row: row[:3])


def _split(columns: str) -> list[str]:
    """Splits at the commas outside parentheses."""
    parts, depth = [""], 0
    for character in columns:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def sink(side: Side, topic: str, records: list[tuple[str | None, str | None]], **options: Any) -> None:
    """Writes keys and values with the batch sink, from one task so that the order is fixed."""
    frame = side.resources.spark().createDataFrame(records, "key string, value string").coalesce(1)
    writer = frame.write.format("kafka").option("kafka.bootstrap.servers", side.bootstrap).option("topic", topic)
    for name, value in options.items():
        writer = writer.option(name, value)
    writer.save()


def fill(side: Side, topic: str, count: int, partitions: int = 1) -> None:
    """Records with a second between their timestamps, by kafka-python."""
    records = [
        Record(b"%d" % n, key=b"k%d" % n, partition=n % partitions, timestamp_ms=EPOCH_MS + n * 1000)
        for n in range(count)
    ]
    kafka_python.produce(side.bootstrap, topic, records)


def error_of(action: Any) -> list[str]:
    """The names of the exceptions and conditions in what Spark raised."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        action()
    except (PySparkException, Py4JJavaError) as error:
        return sorted(set(re.findall(r"\b(?:\w+Exception|KAFKA_\w+)\b", str(error))))
    return []


@BOOK.case("codecs")
def codecs(side: Side) -> Any:
    found = {}
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        topic = side.topic(codec)
        written = [(None, f"{codec} {n} " * 30) for n in range(10)]
        sink(side, topic, written, **{"kafka.compression.type": codec})
        with RawConnection(side.bootstrap) as connection:
            stored = {b["codec"] for b in batch_headers(fetch(connection, topic)["records"])}
        found[codec] = {"stored": stored, "rows": rows(source(side, topic), "topic, partition, offset, value")}
    return found


@BOOK.case("headers")
def headers(side: Side) -> Any:
    topic = side.topic()
    pairs = [("a", b"1"), ("b", b""), ("a", b"2")]
    kafka_python.produce(side.bootstrap, topic, [Record(b"with", headers=pairs), Record(b"without")])
    frame = side.resources.spark().sql(
        "select cast('k' as binary) key, cast('from spark' as binary) value, "
        "array(struct('h' as key, cast('1' as binary) as value)) headers"
    )
    writer = frame.write.format("kafka").option("kafka.bootstrap.servers", side.bootstrap).option("topic", topic)
    writer.option("includeHeaders", "true").save()
    read = source(side, topic, includeHeaders="true")
    columns = "topic, partition, offset, value, transform(headers, h -> concat(h.key, '=', cast(h.value as string))) h"
    return rows(read, columns)


@BOOK.case("nulls")
def nulls(side: Side) -> Any:
    topic = side.topic()
    sink(side, topic, [("k", "v"), (None, "v"), ("k", None), (None, None), ("", "")])
    return rows(source(side, topic), "topic, partition, offset, key, value")


@BOOK.case("one-megabyte")
def one_megabyte(side: Side) -> Any:
    topic = side.topic()
    noise = hashlib.shake_256(b"spark").digest(1_000_000)
    kafka_python.produce(side.bootstrap, topic, [Record(noise)] * 2, max_bytes=1_100_000)
    sink(side, topic, [(None, "m" * 1_000_000)])
    return rows(source(side, topic), "topic, partition, offset, length(value), sha2(value, 256)")


@BOOK.case("many-partitions")
def many_partitions(side: Side) -> Any:
    topic = side.topic(partitions=20)  # a task each: 50 would only take longer
    fill(side, topic, 40, partitions=20)
    frame = source(side, topic)
    return {"partitions": frame.rdd.getNumPartitions(), "rows": rows(frame)}


@BOOK.case("many-partitions", name="min-partitions")
def min_partitions(side: Side) -> Any:
    topic = side.topic(partitions=2)
    fill(side, topic, 60, partitions=2)
    frame = source(side, topic, minPartitions="6")
    return {"partitions": frame.rdd.getNumPartitions(), "rows": rows(frame)}


@BOOK.case("many-partitions", name="pattern")
def pattern(side: Side) -> Any:
    for what in ("part-a", "part-b", "other"):
        fill(side, side.topic(what, 2), 6, partitions=2)
    return rows(source(side, "", subscribePattern=re.escape(side.prefix) + r"\.part-.*"))


@BOOK.case("key-hashing")
def key_hashing(side: Side) -> Any:
    topic = side.topic(partitions=7)
    sink(side, topic, [(f"N{n}", "x") for n in range(100)])
    return rows(source(side, topic), "key, partition, offset")


@BOOK.case("seek-and-replay", name="offsets")
def offsets(side: Side) -> Any:
    topic = side.topic(partitions=2)
    fill(side, topic, 20, partitions=2)
    window = {
        "startingOffsets": json.dumps({topic: {"0": 3, "1": -2}}),
        "endingOffsets": json.dumps({topic: {"0": -1, "1": 4}}),
    }
    everything = source(side, topic, startingOffsets="earliest", endingOffsets="latest")
    return {"all": rows(everything), "json": rows(source(side, topic, **window)), "again": everything.count()}


@BOOK.case("offsets-by-time")
def offsets_by_time(side: Side) -> Any:
    topic = side.topic(partitions=2)
    fill(side, topic, 20, partitions=2)
    after, before = EPOCH_MS + 4500, EPOCH_MS + 15_000
    both = {
        "startingOffsetsByTimestamp": json.dumps({topic: {"0": after, "1": after}}),
        "endingOffsetsByTimestamp": json.dumps({topic: {"0": before, "1": before}}),
    }
    late = source(side, topic, startingTimestamp=str(EPOCH_MS + 99_000))
    return {
        "by partition": rows(source(side, topic, **both)),
        "one time": rows(source(side, topic, startingTimestamp=str(after))),
        "too late": error_of(late.collect),
    }


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def stream(side: Side, topic: str, folder: Path, **options: Any) -> list[list[Any]]:
    """Writes what is available now to a Parquet folder, from its checkpoint on; returns all rows written so far."""
    spark = side.resources.spark()
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", side.bootstrap)
    reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
    for name, value in options.items():
        reader = reader.option(name, value)
    writer = (
        reader.load().writeStream.trigger(availableNow=True).option("checkpointLocation", str(folder / "checkpoint"))
    )
    query = writer.format("parquet").option("path", str(folder / "out")).start()
    assert query.awaitTermination(60), "the stream did not end by itself"
    return rows(spark.read.parquet(str(folder / "out")))


@BOOK.case("seek-and-replay", name="available-now")
def available_now(side: Side) -> Any:
    """Two runs over one checkpoint: the second reads only what is new; rate limits split a run into batches."""
    topic = side.topic(partitions=2)
    with _folder() as folder:
        fill(side, topic, 20, partitions=2)
        first = stream(side, topic, folder, maxOffsetsPerTrigger="8")
        fill(side, topic, 6, partitions=2)
        second = stream(side, topic, folder)
        nothing_new = stream(side, topic, folder)
        offsets_log = sorted((folder / "checkpoint" / "offsets").glob("[0-9]*"))
        batches = [json.loads(path.read_text().splitlines()[-1]) for path in offsets_log]
    return {"first": first, "second": second, "same again": nothing_new == second, "batches": batches}


@BOOK.case("crash-resume")
def crash_resume(side: Side) -> Any:
    """The broker is killed between two runs over one checkpoint: nothing is read twice or missed."""
    topic = side.topic()
    with _folder() as folder:
        fill(side, topic, 10)
        first = stream(side, topic, folder)
        side.crash_and_restart()
        fill(side, topic, 5)
        return {"first": first, "second": stream(side, topic, folder)}


@BOOK.case("key-hashing", name="streaming-sink")
def streaming_sink(side: Side) -> Any:
    """Kafka to Kafka by a stream: the sink keeps the order within each key, also after a restart from checkpoint."""
    spark, origin, target = side.resources.spark(), side.topic("origin"), side.topic("target", 3)
    with _folder() as folder:
        for _ in range(2):
            fill(side, origin, 12)
            reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", side.bootstrap)
            frame = reader.option("subscribe", origin).option("startingOffsets", "earliest").load()
            writer = frame.select("key", "value").writeStream.format("kafka").option("topic", target)
            writer = writer.option("kafka.bootstrap.servers", side.bootstrap).trigger(availableNow=True)
            query = writer.option("checkpointLocation", str(folder)).start()
            assert query.awaitTermination(60), "the stream did not end by itself"
    return rows(source(side, target), "topic, partition, offset, key, value")


@BOOK.case("unknown-topic")
def unknown_topic(side: Side) -> Any:
    """Reading a missing topic fails and does not create it; the sink creates it."""
    missing = side.name("missing")
    read = error_of(lambda: source(side, missing).collect())
    spark = side.resources.spark()
    sink(side, side.name("made"), [("k", "v")])
    beyond = json.dumps({side.name("made"): {"0": 1000}})
    past_end = error_of(lambda: source(side, side.name("made"), startingOffsets=beyond).collect())
    return {
        "read": read,
        "past the end": past_end,
        "made": rows(source(side, side.name("made")), "topic, partition, offset, key, value"),
        "version": spark.version,
    }


@BOOK.case("oversized-record")
def oversized_record(side: Side) -> Any:
    topic = side.topic(max_message_bytes="20000")
    fast = {"kafka.delivery.timeout.ms": "20000", "kafka.request.timeout.ms": "10000"}
    refused = error_of(lambda: sink(side, topic, [(None, "x" * 30_000)], **fast))
    sink(side, topic, [(None, "small")])
    return {"refused": refused, "kept": rows(source(side, topic), "topic, partition, offset, length(value)")}


@pytest.fixture(autouse=True, scope="module")
def _spark_is_imported() -> None:
    """Imports Spark's modules, whose circular imports fail if two threads import them first at the same time."""
    importlib.import_module("pyspark.sql")


@pytest.mark.parametrize("case", BOOK.params())
def test_case(case: Case, comparison: Comparison) -> None:
    comparison.check(case)


def test_a_session_leaves_the_exceptions_of_other_jvms_alone(comparison: Comparison) -> None:
    """Their object ids mean other objects in Spark's JVM; hundreds of ids, as most of them mean none there."""
    if is_missing("Java"):
        pytest.skip("no Java")
    assert comparison.resources.spark().version
    java = JavaVm()
    try:
        for _ in range(300):
            with pytest.raises(Py4JJavaError) as caught:
                java.new("java.lang.Integer", "not a number")
            assert caught.value.java_exception.getClass().getName() == "java.lang.NumberFormatException"
    finally:
        java.close()
