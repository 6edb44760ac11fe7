"""One batch: reads it from the topics, parses it if requested, counts its records, and finds its gaps."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyspark's types are incomplete

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from odradek.pipeline.archiving.gaps import Gap, missing_ranges
from odradek.pipeline.archiving.planning import Planned, as_spark_json, assignment
from odradek.pipeline.connection import Connection
from odradek.pipeline.session import read_options
from odradek.pipeline.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

DAY_MS: Final = 86_400_000
HOUR_MS: Final = 3_600_000
ORDER: Final = ("topic", "partition", "offset")
PARTITION_COLUMNS: Final = {"none": (), "date": ("date",), "hour": ("date", "hour")}
PARTITION_TYPES: Final = {"date": "date", "hour": "int"}
FEW_RECORDS: Final = 250_000
"""The minimal number of records for a file of its own."""


@dataclass(slots=True)
class Counted:
    """One partition's part of a batch: the number of records, and the offsets without one."""

    records: int = 0
    gaps: list[Gap] = field(default_factory=list[Gap])


def tasks_for(planned: Sequence[Planned], record_bytes: float, target_bytes: int, cores: int) -> int:
    """Return the number of files of a batch: of about the target size, and enough to use all cores."""
    offsets = sum(one.end - one.first for one in planned)
    by_size = -(-int(offsets * record_bytes) // target_bytes)
    return max(1, by_size, min(cores, offsets // FEW_RECORDS))


def read_topics(
    spark: "SparkSession", connection: Connection, planned: Sequence[Planned], tasks: int
) -> "tuple[DataFrame, bool]":
    """Return the records of a batch with the columns of `format("kafka")`, and whether each task has them in order.
    Records of aborted transactions are omitted. The read fails if offsets have been deleted since.
    """
    present = [one for one in planned if one.end > one.first]
    frame = (
        spark.read.format("kafka")
        .options(**read_options(connection))
        .option("kafka.isolation.level", "read_committed")
        .option("assign", assignment([one.place for one in present]))
        .option("startingOffsets", as_spark_json({one.place: one.first for one in present}))
        .option("endingOffsets", as_spark_json({one.place: one.end for one in present}))
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "true")
        .option("minPartitions", str(tasks))
        .load()
        .select("topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers")
    )
    # Spark makes at least one task per topic partition; fewer tasks have several partitions each, one after the other.
    return (frame, True) if tasks >= len(present) else (frame.coalesce(tasks), False)


def with_partition_columns(frame: "DataFrame", partition_by: str) -> "DataFrame":
    """Add `date` and `hour` of the record's timestamp, in UTC."""
    from pyspark.sql import functions as f

    millis = f.unix_millis("timestamp")
    columns: dict[str, Column] = {
        "date": f.date_from_unix_date(f.floor(millis / DAY_MS).cast("int")),
        "hour": f.pmod(f.floor(millis / HOUR_MS), f.lit(24)).cast("int"),
    }
    return frame.withColumns({name: columns[name] for name in PARTITION_COLUMNS[partition_by]})


def in_order(frame: "DataFrame", partition_by: str, *, is_ordered: bool) -> "DataFrame":
    """Sort each task's records by partition and offset, within a file's directory."""
    directories = PARTITION_COLUMNS[partition_by]
    return frame if is_ordered and not directories else frame.sortWithinPartitions(*directories, *ORDER)


def count_records(frame: "DataFrame") -> dict[TopicPartition, int]:
    """Return the number of records of each partition."""
    return {TopicPartition(row[0], row[1]): row[2] for row in frame.groupBy("topic", "partition").count().collect()}


def find_gaps(frame: "DataFrame", planned: Sequence[Planned], counts: dict[TopicPartition, int]) -> dict[Any, Counted]:
    """Count each partition's records, and find the offsets without one if there are fewer records than offsets."""
    found = {one.place: Counted(counts.get(one.place, 0)) for one in planned}
    with_gaps = [one for one in planned if found[one.place].records < one.end - one.first]
    runs = _runs(frame, [one.place for one in with_gaps]) if with_gaps else {}
    for one in with_gaps:
        found[one.place].gaps = missing_ranges(runs.get(one.place, []), one.first, one.end)
    return found


def _runs(frame: "DataFrame", places: Sequence[TopicPartition]) -> dict[TopicPartition, list[Gap]]:
    """Return the runs of consecutive offsets, for each partition in order."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    topics = frame.where(f.col("topic").isin(sorted({place.topic for place in places})))
    by_place = Window.partitionBy("topic", "partition")
    numbered = topics.select(*ORDER, (f.col("offset") - f.row_number().over(by_place.orderBy("offset"))).alias("run"))
    runs = numbered.groupBy("topic", "partition", "run").agg(f.min("offset"), f.max("offset") + 1)
    found: dict[TopicPartition, list[Gap]] = {}
    for topic, partition, _, first, after in sorted(runs.collect()):
        found.setdefault(TopicPartition(topic, partition), []).append((first, after))
    return found
