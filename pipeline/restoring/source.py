"""What is restored: a table of `odradek pipeline archive`, a folder of Parquet files, or a DataFrame like them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from odradek.pipeline.errors import PipelineError
from odradek.pipeline.table import open_table, read_dead_letters, read_table
from odradek.pipeline.table.files import open_files
from odradek.pipeline.table.log import Log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers")


@dataclass(frozen=True, slots=True)
class Source:
    """The rows of one topic, and how many partitions it has: more than have rows, where the table knows it."""

    topic: str
    rows: "DataFrame"
    partitions: int


def open_source(spark: "SparkSession", table: "str | Path | DataFrame", from_topic: str | None) -> Source:
    """The rows of `from_topic`, or of the only topic of the table; those that did not parse are among them.

    Raises PipelineError where that cannot be: no table, a column is missing, several topics, none.
    """
    if not isinstance(table, str | Path):
        return _source(table, _partitions(table), from_topic)
    if not Log(open_files(table, spark)).exists:
        frame = _parquet(spark, table)
        return _source(frame, _partitions(frame), from_topic)
    counts: dict[str, int] = {}
    known = open_table(table, spark)
    for place in known.progress:
        counts[place.topic] = max(counts.get(place.topic, 0), place.partition + 1)
    rows = _raw(read_table(spark, table))
    return _source(
        rows.unionByName(_raw(read_dead_letters(spark, table))) if known.dead_letters else rows, counts, from_topic
    )


def _source(frame: "DataFrame", partitions: Mapping[str, int], from_topic: str | None) -> Source:
    rows = _raw(frame)
    topic = _choose(sorted(partitions), from_topic)
    return Source(topic, rows.where(rows["topic"] == topic).drop("topic"), partitions[topic])


def _raw(frame: "DataFrame") -> "DataFrame":
    missing = [name for name in COLUMNS if name not in frame.columns]
    if missing:
        raise PipelineError(f"the table has no column {', '.join(missing)} (archived with --drop-raw?)")
    return frame.select(*COLUMNS)


def _parquet(spark: "SparkSession", path: str | Path) -> "DataFrame":
    from pyspark.errors import AnalysisException

    try:
        return _raw(spark.read.parquet(str(path)))
    except AnalysisException as error:
        raise PipelineError(f"{path} is no table: {str(error).partition(';')[0].splitlines()[0]}") from error


def _partitions(frame: "DataFrame") -> dict[str, int]:
    from pyspark.sql import functions as f

    counted = _raw(frame).groupBy("topic").agg((f.max("partition") + 1).alias("partitions"))
    return {row["topic"]: row["partitions"] for row in counted.collect()}


def _choose(topics: list[str], wanted: str | None) -> str:
    if wanted is None and len(topics) == 1:
        return topics[0]
    known = ", ".join(topics) or "no topic at all"
    if wanted is None:
        raise PipelineError(f"the table has {known}: choose one with --from-topic" if topics else "the table is empty")
    if wanted not in topics:
        raise PipelineError(f"the table has no topic {wanted!r}, but {known}")
    return wanted
