"""The transform job."""

# pyright: reportUnknownMemberType=false
# pyarrow, whose types are parameters of tasks, has no type hints

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from odradek.gateway.cli.output import meter
from odradek.pipeline.cluster import Cluster
from odradek.pipeline.connection import Connection
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.progress import advancing
from odradek.pipeline.report import PartitionReport, Report
from odradek.pipeline.session import read_options
from odradek.pipeline.topic_partition import EARLIEST, LATEST, Offsets, TopicPartition
from odradek.pipeline.transforming.query import Transformation, as_records
from odradek.pipeline.transforming.tasks import PLACED, RESULT, Placing, Task
from odradek.pipeline.wire_client import WireClient
from odradek.pipeline.writing.encoding import CODECS
from odradek.pipeline.writing.transactions import Transactions
from odradek.wire.records.batch import increment_sequence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEFAULT_BATCH: Final = 1_000_000
TRANSACTION_TIMEOUT_MS: Final = 15 * 60 * 1000
"""The longest that a broker allows by default."""
BATCH_BYTES: Final = 900_000

Stopped = Callable[[float], bool]
"""Waits for a time in seconds; returns True if the job has to end."""


@dataclass(slots=True)
class _Job:
    spark: "SparkSession"
    connection: Connection
    source: str
    target: str
    transformation: Transformation
    group: str
    batch: int
    codec: str
    shown: bool
    report: Report
    written: dict[int, int] = field(default_factory=dict[int, int])
    positions: Offsets = field(default_factory=dict[TopicPartition, int])


def transform(
    spark: "SparkSession",
    transformation: Transformation,
    *,
    connection: Connection,
    from_topic: str,
    to_topic: str,
    group: str | None = None,
    batch: int = DEFAULT_BATCH,
    codec: str = "none",
    every_s: float | None = None,
    stopped: Stopped | None = None,
    shown: bool = False,
) -> Report:
    """Write the result of `transformation` on a topic's committed records to another topic of the same Kafka.

    A missing target topic is created, with the source's number of partitions and settings. Records are read in batches
    of at most `batch` offsets, or a few more, since each partition advances by one at least. Each batch is one
    transaction of the new records and of `group`'s committed offsets, so that a reader with `read_committed` sees the
    result of each source record exactly once, also after crashes; the next run continues at the committed offsets. Only
    one run of a group is active: a later one fences the earlier. With `every_s` it checks for new records at that
    interval until `stopped` returns True; without, it ends at the source's end as of the beginning of the run.

    Raises PipelineError if the source does not exist, retention deleted records before they were read, or Spark or the
    broker fails; then the current batch is aborted.
    """
    name = group or f"odradek-transform-{from_topic}-to-{to_topic}"
    report = Report("transform", details={"group": name})
    job = _Job(spark, connection, from_topic, to_topic, transformation, name, batch, codec, shown, report)
    with Cluster(connection) as cluster, WireClient(connection) as client:
        counts = cluster.partition_counts([from_topic])
        if to_topic not in cluster.topics():
            settings = cluster.topic_config(from_topic)  # in particular the retention that its records need
            given = {name: value for name, value in settings.items() if value is not None}
            cluster.create_topic(to_topic, counts[from_topic], given)
        transactions = Transactions(client, name, TRANSACTION_TIMEOUT_MS)
        before = cluster.offsets(dict.fromkeys(cluster.partitions([to_topic]), LATEST))
        _run_to_the_end(job, cluster, transactions)
        while every_s is not None and not (stopped or _sleep)(every_s):
            _run_to_the_end(job, cluster, transactions)
        _add_target(job, cluster, before)
    return job.report


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def _run_to_the_end(job: _Job, cluster: Cluster, transactions: Transactions) -> None:
    places = cluster.partitions([job.source])
    starts = _starts(job, cluster, places)
    ends = cluster.offsets(dict.fromkeys(places, LATEST), committed_only=True)
    total = sum(ends[place] - starts[place] for place in places)
    with meter(f"to {job.target}", total, shown=job.shown) as bar:
        while any(starts[place] < ends[place] for place in places):
            stops = _stops(starts, ends, job.batch)
            count = sum(stops[place] - starts[place] for place in places)
            with advancing(job.spark, bar, count):
                _run_batch(job, cluster, transactions, starts, stops)
            starts = stops


def _starts(job: _Job, cluster: Cluster, places: list[TopicPartition]) -> Offsets:
    """Return the next offsets: the group's, or the first of the topic. Raises PipelineError for a loss by retention."""
    # OffsetFetch may not return this run's last commit while its markers are being written.
    committed = {**cluster.committed(job.group), **job.positions}
    first = cluster.offsets(dict.fromkeys(places, EARLIEST))
    for place in places:
        if committed.get(place, first[place]) < first[place]:
            raise PipelineError(
                f"{place.topic}-{place.partition} begins at {first[place]}: offsets from {committed[place]} on were "
                "deleted by retention and not transformed (another --group starts at the first that are left)"
            )
    return {place: committed.get(place, first[place]) for place in places}


def _stops(starts: Offsets, ends: Offsets, batch: int) -> Offsets:
    """Return the ends of the next batch, distributed in proportion to each partition's remaining offsets."""
    left = {place: ends[place] - starts[place] for place in starts}
    total = sum(left.values())
    share = min(1.0, batch / total)
    return {place: starts[place] + min(left[place], max(1, int(left[place] * share))) for place in starts}


def _run_batch(job: _Job, cluster: Cluster, transactions: Transactions, starts: Offsets, stops: Offsets) -> None:
    records = _read(job, starts, stops)
    partitions = cluster.partition_counts([job.target])[job.target]
    targets = [TopicPartition(job.target, index) for index in range(partitions)]
    transactions.begin(targets)
    try:
        written = _write(job, transactions, records, partitions)
        transactions.send_offsets(job.group, stops)
    except BaseException:
        transactions.end(committed=False)
        raise
    transactions.end(committed=True)
    for index, count in written.items():
        job.written[index] = job.written.get(index, 0) + count
    job.positions = stops
    _count(job, starts, stops)


def _read(job: _Job, starts: Offsets, stops: Offsets) -> "DataFrame":
    """Return the source's committed records between the offsets, with all columns of `format("kafka")`."""
    options = {
        **read_options(job.connection),
        "subscribe": job.source,
        "startingOffsets": _as_json(job.source, starts),
        "endingOffsets": _as_json(job.source, stops),
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed",
    }
    return job.spark.read.format("kafka").options(**options).load()


def _as_json(topic: str, offsets: Mapping[TopicPartition, int]) -> str:
    return json.dumps({topic: {str(place.partition): offset for place, offset in offsets.items()}})


def _write(job: _Job, transactions: Transactions, records: "DataFrame", partitions: int) -> dict[int, int]:
    """Write the records, in Spark's order; return the number written to each partition. Raises PipelineError."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f

    sequences = {index: increment_sequence(0, job.written.get(index, 0)) for index in range(partitions)}
    task = Task(
        job.connection,
        job.target,
        CODECS[job.codec],
        BATCH_BYTES,
        transactions.transactional_id,
        transactions.producer,
        sequences,
    )
    made = as_records(job.transformation(records)).withColumn("position", f.monotonically_increasing_id())
    placed = made.mapInArrow(Placing(partitions).run, PLACED).repartitionById(partitions, f.col("target"))
    try:
        done = placed.sortWithinPartitions("position").mapInArrow(task.run, RESULT).collect()
    except (PySparkException, Py4JJavaError) as error:
        raise PipelineError(f"the transformation failed: {_reason(error)}") from error
    errors = [row["error"] for row in done if row["error"] is not None]
    if errors:
        raise PipelineError(errors[0])
    return {row["partition"]: row["records"] for row in done}


def _reason(error: Exception) -> str:
    """Return the error's line: the last of Python's traceback, else the first that is not about Py4J."""
    lines = [
        line for line in str(error).strip().splitlines() if line.strip() and not line.startswith(("\t", "An error occ"))
    ]
    return lines[-1] if "Traceback" in str(error) and lines else (lines or [""])[0]


def _count(job: _Job, starts: Offsets, stops: Offsets) -> None:
    """Add a batch to the report's lines on the source; `read` counts offsets there."""
    known = {one.partition: one for one in job.report.partitions}
    for place in starts:
        one = known.get(place.partition)
        if one is None:
            one = PartitionReport(place.topic, place.partition, starts[place], starts[place])
            job.report.partitions.append(one)
        one.to_offset = stops[place]
        one.read += stops[place] - starts[place]


def _add_target(job: _Job, cluster: Cluster, before: Offsets) -> None:
    """Add the lines on the target."""
    after = cluster.offsets(dict.fromkeys(before, LATEST))
    job.report.partitions += [
        PartitionReport(
            place.topic, place.partition, before[place], after[place], written=job.written.get(place.partition, 0)
        )
        for place in before
    ]
