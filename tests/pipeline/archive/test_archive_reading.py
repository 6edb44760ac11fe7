"""Tables read by Spark: only the log's files, with a schema that has grown."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StructType

from odradek.pipeline.table import open_table, read_dead_letters, read_table
from odradek.pipeline.table.files import LocalFiles
from odradek.pipeline.table.growth import merged
from odradek.pipeline.table.hadoop_files import HadoopFiles
from odradek.pipeline.table.log import STAGING, Log
from odradek.pipeline.table.manifest import DataFile, Entry

FIRST = "offset bigint, parsed struct<a: bigint, deep: array<struct<x: bigint>>>"
SECOND = "offset bigint, parsed struct<a: double, deep: array<struct<x: bigint, y: string>>, b: string>"


def kind(ddl: str) -> Any:
    return StructType.fromDDL(ddl)


def commit(spark: Any, log: Log, writer: Any, rows: list[Any], ddl: str, schema: int) -> None:
    staging = writer.new_staging()
    folder = Path(log.files.root) / STAGING / staging / "data"
    spark.createDataFrame(rows, ddl).coalesce(1).write.parquet(str(folder))
    name = next(path.name for path in folder.glob("*.parquet"))
    new = kind(ddl).jsonValue() if schema == len(log.table.schemas) else None
    writer.commit(Entry(0, "batch", "archive", "", 0, staging, files=(DataFile(name, 1, 1, schema, ()),), schema=new))


def test_older_files_appear_in_the_grown_schema(spark, tmp_path):
    root = tmp_path / "table"
    log = Log(LocalFiles(root))
    log.create({}, kind(FIRST).jsonValue())
    writer = log.claim("archive")
    assert read_table(spark, root).collect() == []
    commit(spark, log, writer, [(0, (1, [(7,)])), (1, None)], FIRST, 0)
    commit(spark, log, writer, [(2, (1.5, [(8, "y")], "b"))], SECOND, 1)
    (root / "stray.parquet").write_text("not ours")
    frame = read_table(spark, root)
    assert frame.schema.simpleString() == kind(SECOND).simpleString()
    assert sorted(map(_plain, frame.collect())) == [
        (0, (1.0, [(7, None)], None)), (1, None), (2, (1.5, [(8, "y")], "b")),
    ]  # fmt: skip
    assert open_table(root).records == 2
    assert read_dead_letters(spark, root).collect() == []


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return [_plain(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("old", "new", "both"), [
    ("a bigint", "a double", "a double"),
    ("a double", "a bigint", "a double"),
    ("a int", "a bigint", "a bigint"),
    ("a bigint", "a decimal(22,0)", "a decimal(22,0)"),
    ("a bigint", "a decimal(10,2)", "a decimal(21,2)"),
    ("a bigint", "b string", "a bigint, b string"),
    ("a struct<b: bigint>", "a struct<c: boolean>", "a struct<b: bigint, c: boolean>"),
    ("a array<bigint>", "a array<double>", "a array<double>"),
])  # fmt: skip
def test_a_schema_grows(spark, old, new, both):
    assert merged(kind(old), kind(new), lambda *_: pytest.fail("a conflict")) == kind(both)


@pytest.mark.parametrize(("old", "new"), [
    ("a bigint", "a string"), ("a string", "a bigint"), ("a struct<b: bigint>", "a bigint"),
    ("a boolean", "a bigint"), ("a bigint", "A bigint"), ("a decimal(38,0)", "a decimal(38,30)"),
])  # fmt: skip
def test_a_schema_that_does_not_fit_is_reported_and_changes_nothing(spark, old, new):
    refused: list[str] = []
    assert merged(kind(old), kind(new), lambda path, *_: refused.append(path.lower())) == kind(old)
    assert refused == ["a"]


@pytest.mark.parametrize(
    "make", [lambda _, root: LocalFiles(root), lambda spark, root: HadoopFiles(spark, f"file:{root}")]
)
def test_each_file_system_does_what_a_table_needs(spark, tmp_path, make):
    files = make(spark, tmp_path)
    assert files.names("log") == []
    assert not files.exists("log")
    assert files.create("log/1", "ä one")
    assert not files.create("log/1", "two")
    assert files.read("log/1") == "ä one"
    assert files.names("log") == ["1"]
    assert files.move("log/1", "deep/er/1")
    assert not files.move("log/1", "deep/er/1")
    assert files.exists("deep/er/1")
    files.sync(["deep/er/1"])
    files.sync_names(["deep/er/1"])
    files.delete("deep")
    files.delete("deep")
    assert files.names() == ["log"]
