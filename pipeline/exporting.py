"""The export job: copies a topic to a table of a database, each record exactly once, also after crashes.

Spark reads each partition's range of committed records in one task, which writes them in order, in groups, each in one
transaction with the offset after the group. docs/pipeline.md describes the mapping of keys, values and null values.
"""

# pyright: reportUnknownMemberType=false
# PySpark's types of Arrow are incomplete

import importlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from odradek.gateway.cli.output import Meter, note
from odradek.gateway.cli.output import meter as progress
from odradek.pipeline.cluster import Cluster
from odradek.pipeline.databases.avro import Schema, check_installed, read_schema
from odradek.pipeline.databases.bookkeeping import Bookkeeping, Kept
from odradek.pipeline.databases.columns import POSTGRESQL, Column, Kind, columns_of_schema
from odradek.pipeline.databases.engine import (
    TransientError,
    database_errors,
    is_jdbc,
    open_engine,
    spark_errors,
)
from odradek.pipeline.databases.inference import columns_of, kinds_of, merged
from odradek.pipeline.databases.rows import Fields, Mode, RecordMapping, place_columns
from odradek.pipeline.databases.tables import Described, create_table, describe
from odradek.pipeline.databases.writing import DIALECTS, RecordBatch, WritePlan, records_of, write_batches
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.progress import advancing
from odradek.pipeline.report import PartitionReport, Report
from odradek.pipeline.session import read_options
from odradek.pipeline.topic_partition import EARLIEST, LATEST, Offsets, TopicPartition
from odradek.storage_backends.urls import masked_url as shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from sqlalchemy import Connection as DatabaseConnection

    from odradek.pipeline.connection import Connection

BATCH_ROWS: Final = 2_000
_GAPS: Final = "transaction marker, aborted or compacted"
_LOST: Final = "deleted before it was read"
_DEAD: Final = "dead letter"
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Export:
    """What to export, and how records are converted to rows.

    `mode` "upsert" keeps one row per key, in the columns named by `key` (empty: the table's primary key), and deletes
    it at a null value; they are in the records' key, or with `key_from_value` in the value. "append" adds a row per
    record. `value` is "json" or "avro"; `schema` is a file with an Avro schema, from which a missing table is created
    (without it: from the values). `job` names the export, whose offsets are stored in the database. `group` is a
    consumer group for publishing the progress.
    """

    topic: str
    url: str
    table: str
    mode: Mode = "upsert"
    key: tuple[str, ...] = ()
    key_from_value: bool = False
    value: str = "json"
    schema: Path | None = None
    job: str | None = None
    batch_rows: int = BATCH_ROWS
    group: str | None = None

    @property
    def name(self) -> str:
        """The job's name: the given one, or one made of topic and table."""
        return self.job or _NO_NAME.sub("_", f"{self.topic}-{self.table}")


@dataclass(slots=True)
class Exporter:
    """A started export, which has fenced earlier ones of its job. `run` exports the available records; it may be
    repeated.
    """

    spark: "SparkSession"
    connection: "Connection"
    export: Export
    _books: Bookkeeping = field(init=False)
    _schema: Schema | None = field(init=False, default=None)
    _epoch: int = field(init=False)
    _begun: dict[int, Kept] = field(init=False)
    _lost: Counter[int] = field(init=False, default_factory=Counter[int])
    _lost_to: dict[int, int] = field(init=False, default_factory=dict[int, int])
    _mapping: RecordMapping | None = field(init=False, default=None)
    _place: tuple[str | None, str] = field(init=False, default=(None, ""))

    def __post_init__(self) -> None:
        """Check the options, create the bookkeeping tables, and take the partitions over."""
        check_target(self.export.url)
        self._schema = _schema(self.export)
        self._books = Bookkeeping(self.export.name, self.export.topic)
        with Cluster(self.connection) as cluster:
            starts = _bounds(cluster, self.export.topic, EARLIEST)
        with self._transaction() as database:
            self._books.prepare(database)
            self._begun = self._books.take_over(database, starts)
        self._epoch = next(iter(self._begun.values())).epoch

    def run(self, meter: Meter, stopped: Callable[[], bool] = lambda: False) -> None:
        """Export everything that is committed now, unless `stopped` returns True before it begins.

        Raises PipelineError, TransientError if a retry may succeed, and FencedExportError if another export of the job
        has started; if a Spark task finds that out, it is a PipelineError with the same message.
        """
        starts, ends = self._ranges()
        if not ends or stopped():
            return
        present = {place: end for place, end in ends.items() if starts[place] < end}
        if present:
            self._write(starts, present, meter)
        # the tasks stop after the last record of a range; markers, aborted and compacted offsets may follow it
        with self._transaction() as database:
            for place, end in ends.items():
                self._books.claim(database, place.partition, self._epoch)
                self._books.advance(database, place.partition, end)
        self._publish()

    def _write(self, starts: Offsets, ends: Offsets, meter: Meter) -> None:
        """Write the records of the ranges, of which none is empty."""
        records = sum(ends[place] - starts[place] for place in ends)
        frame = self._frame(starts, ends)
        plan = self._plan(frame)
        with spark_errors(), advancing(self.spark, meter, records):
            frame.mapInArrow(partial(write_batches, plan), "partition int").collect()

    def recover(self) -> None:
        """Do nothing: each run reads the progress from the database."""

    def waiting(self) -> int:
        """Return the number of offsets to export."""
        starts, ends = self._ranges()
        return sum(ends[place] - starts[place] for place in ends)

    def report(self) -> Report:
        """Return the report on what was exported since the export began."""
        with self._transaction() as database:
            kept = self._books.kept(database)
        report = Report("export", details={
            "export": self.export.name, "url": shown(self.export.url), "table": self.export.table,
            "mode": self.export.mode,
        })  # fmt: skip
        for partition, now in sorted(kept.items()):
            before = self._begun.get(partition) or Kept(0, 0)
            report.partitions.append(_partition_report(self.export.topic, partition, before, now, self._lost))
        if dead := report.skipped[_DEAD]:
            report.notes.append(f"{dead:,} records are in odradek_dead_letters, with the reason")
        if lost := sum(self._lost.values()):
            report.incomplete(f"{lost:,} offsets were deleted from the topic before this export came to them")
        return report

    def _ranges(self) -> tuple[Offsets, Offsets]:
        """Return the first offset that exists and the current end of each partition with new offsets; both are the same
        if all of these were deleted. Raises FencedExportError.
        """
        try:
            with Cluster(self.connection) as cluster:
                earliest = _bounds(cluster, self.export.topic, EARLIEST)
                latest = _bounds(cluster, self.export.topic, LATEST)
        except PipelineError as error:
            raise TransientError(error.message) from error
        kept = self._adopt(earliest)
        starts: Offsets = {}
        ends: Offsets = {}
        for partition, end in latest.items():
            start = max(kept[partition].next_offset, earliest[partition])
            self._lose(partition, kept[partition].next_offset, start)
            if start > end:
                raise PipelineError(
                    f"{self.export.topic}-{partition} ends at {end}, but job {self.export.name!r} has exported it up "
                    f"to {start}: was the topic made anew? --job names another export"
                )
            if kept[partition].next_offset < end:
                place = TopicPartition(self.export.topic, partition)
                starts[place], ends[place] = start, end
        return starts, ends

    def _lose(self, partition: int, first: int, end: int) -> None:
        """Count deleted offsets, each once: until a run has succeeded, the next one finds the same again."""
        counted = self._lost_to.get(partition, 0)
        self._lost[partition] += max(0, end - max(first, counted))
        self._lost_to[partition] = max(end, counted)

    def _adopt(self, earliest: Mapping[int, int]) -> dict[int, Kept]:
        """Return the stored progress, after adding partitions that are new in the topic. Raises FencedExportError."""
        with self._transaction() as database:
            kept = self._books.kept(database)
            if any(one.epoch != self._epoch for one in kept.values()):
                raise self._books.fenced()
            if new := {partition: start for partition, start in earliest.items() if partition not in kept}:
                kept = self._books.take_over(database, new)
                self._epoch = next(iter(kept.values())).epoch
                self._begun |= {partition: kept[partition] for partition in new}
        return kept

    def _frame(self, starts: Offsets, ends: Offsets) -> "DataFrame":
        reader = self.spark.read.format("kafka").options(**read_options(self.connection))
        reader = reader.option("kafka.isolation.level", "read_committed")
        reader = reader.option("assign", json.dumps({self.export.topic: [place.partition for place in ends]}))
        for name, offsets in (("startingOffsets", starts), ("endingOffsets", ends)):
            by_partition = {str(place.partition): offsets[place] for place in ends}
            reader = reader.option(name, json.dumps({self.export.topic: by_partition}))
        with spark_errors():
            return reader.load().selectExpr("partition", "offset", "unix_millis(timestamp) AS ms", "key", "value")

    def _plan(self, frame: "DataFrame") -> WritePlan:
        if self._mapping is None:
            self._mapping = self._map(frame)
        schema, name = self._place
        return WritePlan(self.export.url, schema, name, self._books, self._mapping, self._epoch, self.export.batch_rows)

    def _map(self, frame: "DataFrame") -> RecordMapping:
        """Return the mapping of records to the table, which is created if it is missing."""
        with self._transaction(locked=False) as database:
            found = describe(database.engine, self.export.table)
        if found is None:
            columns, key = self._new_columns(frame)
            with self._transaction() as database:
                create_table(database, self.export.table, columns, key)
            note(f"created table {self.export.table} with {', '.join(one.name for one in columns)}")
            with self._transaction(locked=False) as database:
                found = describe(database.engine, self.export.table)
            assert found is not None
        self._place = found.schema, found.name
        key = _key_of(self.export, found)
        _check_fields(self.export, self._schema, found)
        read_as = self._schema if self.export.value == "avro" else None
        return RecordMapping(
            self.export.topic, self.export.mode, found.columns, key, self.export.key_from_value, read_as
        )

    def _new_columns(self, frame: "DataFrame") -> tuple[list[Column], tuple[str, ...]]:
        """Return the columns and the primary key of a new table for the topic."""
        key = self.export.key
        if self.export.mode == "upsert" and not key:
            raise PipelineError(f"there is no table {self.export.table!r} yet: --key names the columns of its key")
        columns = columns_of_schema(self._schema) if self._schema is not None else self._inferred(frame)
        names = [column.name for column in columns]
        if missing := [name for name in key if name not in names]:
            raise PipelineError(f"no record has the key column {missing[0]!r}; there are {', '.join(names) or 'none'}")
        if self.export.mode == "append":
            places = place_columns()
            return [*places, *columns], tuple(column.name for column in places)
        return [
            replace(one, kind=Kind.TEXT) if one.name in key and one.kind is Kind.JSON else one for one in columns
        ], key

    def _inferred(self, frame: "DataFrame") -> list[Column]:
        fields = Fields(self.export.key, self.export.key_from_value, None)
        with spark_errors():
            rows = frame.mapInArrow(partial(infer_batches, fields), "kinds string").collect()
        kinds: dict[str, Kind | None] = {}
        for row in rows:
            kinds = merged(kinds, {name: kind and Kind(kind) for name, kind in json.loads(row[0]).items()})
        return columns_of(kinds)

    def _publish(self) -> None:
        if self.export.group is None:
            return
        with self._transaction(locked=False) as database:
            kept = self._books.kept(database)
        with Cluster(self.connection) as cluster:
            offsets = {TopicPartition(self.export.topic, one): now.next_offset for one, now in kept.items()}
            cluster.commit(self.export.group, offsets)

    def _transaction(self, *, locked: bool = True) -> "_Transaction":
        return _Transaction(self.export.url, locked=locked)


class _Transaction:
    """A transaction in the Spark driver. `with` returns its connection."""

    def __init__(self, url: str, *, locked: bool) -> None:
        self._url, self._locked = url, locked
        self._held: Any = None

    def __enter__(self) -> "DatabaseConnection":
        with ExitStack() as stack:
            engine = open_engine(self._url)
            stack.callback(engine.dispose)
            stack.enter_context(database_errors(self._url))
            connection = stack.enter_context(engine.connect().execution_options(reading=not self._locked))
            stack.enter_context(connection.begin())
            if self._locked and connection.dialect.name == POSTGRESQL:
                # Two exports that start at the same time may both find the table missing, and create it.
                connection.exec_driver_sql("SELECT pg_advisory_xact_lock(hashtext('odradek_offsets'))")
            self._held = stack.pop_all()
            return connection

    def __exit__(self, *error: Any) -> None:  # noqa: ANN401
        self._held.__exit__(*error)


def infer_batches(fields: Fields, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
    """Yield the kinds of the fields of a Spark partition's values, as one row of JSON. For `mapInArrow`."""
    pyarrow: Any = importlib.import_module("pyarrow")
    kinds = kinds_of(fields, records_of(batches))
    yield pyarrow.RecordBatch.from_pydict({"kinds": [json.dumps(kinds)]})


def check_target(url: str) -> None:
    """Raise PipelineError for a URL that an export cannot write to, MissingError if its driver is not installed."""
    if is_jdbc(url):
        raise PipelineError(
            "export writes rows and offsets in one transaction of the database, which Spark's JDBC sink cannot: "
            "give SQLAlchemy's URL, such as postgresql+psycopg://user@host/shop"
        )
    engine = open_engine(url)
    engine.dispose()
    if engine.dialect.name not in DIALECTS:
        raise PipelineError(f"export writes to {' and '.join(DIALECTS)}, not to {engine.dialect.name}")


def _schema(export: Export) -> Schema | None:
    if export.value != "avro" and export.schema is None:
        return None
    if export.schema is None:
        raise PipelineError("Avro values are read with their schema: --schema FILE")
    check_installed()
    schema = read_schema(export.schema)
    columns_of_schema(schema)
    return schema


def _bounds(cluster: Cluster, topic: str, at: int) -> dict[int, int]:
    places = cluster.partitions([topic])
    return {
        one.partition: offset for one, offset in cluster.offsets(dict.fromkeys(places, at), committed_only=True).items()
    }


def _key_of(export: Export, found: Described) -> tuple[str, ...]:
    """Return the key's columns. Raises PipelineError if the table does not have them, or they are not unique."""
    if export.mode == "append":
        return ()
    key = export.key or found.primary_key
    names = {column.name for column in found.columns}
    if missing := [name for name in key if name not in names]:
        raise PipelineError(f"table {export.table!r} has no column {missing[0]!r}")
    if not key or frozenset(key) not in found.unique:
        named = ", ".join(key) or "its rows"
        raise PipelineError(
            f"table {export.table!r} has no primary key and no unique constraint of just {named}, by which a row is "
            "replaced: add one, or --mode append"
        )
    return tuple(key)


def _check_fields(export: Export, schema: Schema | None, found: Described) -> None:
    names = {column.name for column in found.columns}
    missing = [column.name for column in columns_of_schema(schema) if column.name not in names] if schema else []
    if missing:
        raise PipelineError(
            f"table {export.table!r} has no column {', '.join(map(repr, missing))}, which the schema has: add it, or "
            "name another table"
        )


def _partition_report(topic: str, partition: int, before: Kept, now: Kept, lost: Mapping[int, int]) -> PartitionReport:
    dead, written = now.dead - before.dead, now.written - before.written + now.deleted - before.deleted
    skipped = Counter({_DEAD: dead, _LOST: lost.get(partition, 0)})
    skipped[_GAPS] = now.next_offset - before.next_offset - written - dead - skipped[_LOST]
    return PartitionReport(
        topic, partition, before.next_offset, now.next_offset, written + dead, written, +skipped
    )  # fmt: skip


def export(spark: "SparkSession", connection: "Connection", what: Export, *, meter: Meter | None = None) -> Report:
    """Export everything that is committed now, once; returns the report. Use `Exporter` to repeat it.

    Raises PipelineError if topic, table or database are unsuitable or cannot be reached, and if another export of the
    same job has started (see `Exporter.run`). After any error, the next export of the job continues after the last
    record in the database.
    """
    exporter = Exporter(spark, connection, what)
    with progress("export", None, shown=False) as silent:
        exporter.run(meter or silent)
    return exporter.report()
