"""Spark reads a topic to its end in several ways, in turn: `local[2]`, one JVM, after one read of each to warm up."""

from __future__ import annotations

import json
import os
import sys
import time
from statistics import median
from typing import TYPE_CHECKING, Any

from compat_tests.spark_session import start_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TUNED = {
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": "16777216",
    "kafka.fetch.max.bytes": "67108864",
}


def fill(bootstrap: str, topic: str, partitions: int, records: int, size_bytes: int) -> dict[str, float]:
    """Write records with keys to all partitions in turn, and wait until they are acknowledged."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "batch.size": 1_000_000})
    value = os.urandom(size_bytes)  # noqa: TID251 - a load, no broker
    for number in range(records):
        while True:
            try:
                producer.produce(topic, key=b"%d" % number, value=value, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.1)
    if left := producer.flush(300):
        raise SystemExit(f"{left} of {records} records were not acknowledged")
    return {"records": records}


def read(bootstrap: str, data: str, topic: str, rounds: int) -> dict[str, float]:
    """The median seconds of each way, and the number of records, which must be the same in all ways."""
    from odradek.pipeline import SegmentSource

    spark = start_spark()
    spark.dataSource.register(SegmentSource)
    wire = {"kafka.bootstrap.servers": bootstrap}
    ways: dict[str, tuple[str, dict[str, str]]] = {
        "segments": ("odradek", {"path": data}),
        "wire": ("kafka", wire),
        "tuned": ("kafka", {**wire, **TUNED}),
    }
    counts = {spark.read.format(name).options(subscribe=topic, **more).load().count() for name, more in ways.values()}
    if len(counts) != 1:
        raise ValueError(f"the ways found different numbers of records: {counts}")
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, (name, more) in ways.items():
            seconds[way].append(_seconds(spark, name, {"subscribe": topic, **more}))
    spark.stop()
    return {"records": float(counts.pop()), **{way: median(found) for way, found in seconds.items()}}


def _seconds(spark: SparkSession, name: str, options: dict[str, str]) -> float:
    """The seconds to read all columns of all rows, and write them to a sink that discards them."""
    started = time.perf_counter()
    spark.read.format(name).options(**options).load().write.format("noop").mode("overwrite").save()
    return time.perf_counter() - started


def main() -> None:
    """Run the load that the command line names, with Spark's own output redirected to stderr."""
    out, kind = os.fdopen(os.dup(1), "w"), sys.argv[1]
    os.dup2(2, 1)
    arguments: dict[str, Any] = json.loads(sys.argv[2])
    result = {"fill": fill, "read": read}[kind](**arguments)
    out.write(json.dumps(result) + "\n")
    out.flush()


if __name__ == "__main__":
    main()
