"""Opens tables for restore, audit and notebooks."""

from collections.abc import Iterable
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odradek.pipeline.table.log import Log, dead_letters_name
from odradek.pipeline.table.manifest import DataFile, Table
from odradek.pipeline.table.opening import open_files

# pyright: reportUnknownMemberType=false
# pyspark's types are incomplete

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def open_table(path: str | Path, spark: "SparkSession | None" = None) -> Table:
    """Return the state of the table at `path` from its log: offsets, counts, skipped offsets, files, settings.

    A local path does not require a session. A step that a killed job has committed but not finished is finished first.
    Raises PipelineError if there is no table.
    """
    return Log(open_files(path, spark)).load()


def read_table(spark: "SparkSession", path: str | Path) -> "DataFrame":
    """Return the table's current records: exactly those of the files in the log, also during archive and compact jobs.

    All files are read in the newest schema: widened columns are cast, newer ones are null in older files. A query that
    is still running when `odradek pipeline compact` replaces its files fails with a missing file; it never returns a
    record twice or omits one. Raises PipelineError if there is no table.
    """
    log = Log(open_files(path, spark))
    table = log.load()
    return _read(spark, log.files.root, table, table.files.values())


def read_dead_letters(spark: "SparkSession", path: str | Path) -> "DataFrame":
    """Return the records that could not be parsed: the raw columns, and `error` with the reason. Raises as
    `read_table`.
    """
    log = Log(open_files(path, spark))
    files = log.load().dead_letters.values()
    folder = f"{log.files.root}/../{dead_letters_name(log.files.root)}"
    schema = dead_letter_schema()
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(*(f"{folder}/{file.path}" for file in files))


def read_files(spark: "SparkSession", path: str | Path, table: Table, files: Iterable[DataFile]) -> "DataFrame":
    """Return the records of some files of the table, in its newest schema."""
    return _read(spark, open_files(path, spark).root, table, files)


def _read(spark: "SparkSession", root: str, table: Table, files: Iterable[DataFile]) -> "DataFrame":
    from pyspark.sql.types import StructType

    schemas = [StructType.fromJson(one) for one in table.schemas]
    by_schema: dict[int, list[str]] = {}
    for file in files:
        by_schema.setdefault(file.schema, []).append(f"{root}/{file.path}")
    if not by_schema:
        return spark.createDataFrame([], schemas[-1])
    parts = [
        _as_schema(spark.read.schema(schemas[index]).option("basePath", root).parquet(*paths), schemas[-1])
        for index, paths in sorted(by_schema.items())
    ]
    return reduce(lambda left, right: left.unionAll(right), parts)


def _as_schema(frame: "DataFrame", schema: Any) -> "DataFrame":  # noqa: ANN401 - pyspark is imported late
    """Return the rows in a schema that evolved from theirs."""
    from pyspark.sql import functions as f

    from odradek.pipeline.table.growth import grown

    present = {field.name: field.dataType for field in frame.schema.fields}
    columns = [
        grown(f.col(f"`{one.name}`"), present[one.name], one.dataType) if one.name in present else f.lit(None)
        for one in schema.fields
    ]
    return frame.select(
        *(column.cast(one.dataType).alias(one.name) for column, one in zip(columns, schema.fields, strict=True))
    )


def raw_schema() -> Any:  # noqa: ANN401 - a StructType; pyspark is imported late
    """Return the columns of `format("kafka")` with headers: a table's columns without parsed ones."""
    from pyspark.sql.types import StructType

    return StructType.fromDDL(
        "topic string, partition int, offset bigint, timestamp timestamp, timestampType int, key binary, "
        "value binary, headers array<struct<key: string, value: binary>>"
    )


def dead_letter_schema() -> Any:  # noqa: ANN401 - a StructType; pyspark is imported late
    """Return the raw columns and `error`."""
    from pyspark.sql.types import StringType

    return raw_schema().add("error", StringType())
