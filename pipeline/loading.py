"""The load job: copies a table's rows to a topic, in order of increasing columns, each exactly once.

The positions of ranges of rows are planned in the driver, Spark tasks read the ranges and convert them to records, and
the driver sends each range, in order, in one transaction with the position at its end. docs/pipeline.md describes which
rows each mode finds and misses.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from odradek.gateway.cli.output import Meter
from odradek.gateway.cli.output import meter as progress
from odradek.pipeline.databases import positions
from odradek.pipeline.databases.avro import keep_schema
from odradek.pipeline.databases.columns import Kind, avro_schema
from odradek.pipeline.databases.encode import RowFormat
from odradek.pipeline.databases.engine import is_jdbc
from odradek.pipeline.databases.jdbc import JdbcReader, jdbc_columns
from odradek.pipeline.databases.positions import Position, Range
from odradek.pipeline.databases.reading import Order, Pair, TableReader
from odradek.pipeline.databases.sending import TransactionalSender, topic_ends
from odradek.pipeline.databases.tables import Described, described, split_name
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.report import PartitionReport, Report
from odradek.storage_backends.urls import masked_url as shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odradek.pipeline.connection import Connection

BATCH_ROWS: Final = 10_000
_MOST_RANGES: Final = 16
_WITHOUT_ORDER: Final = frozenset({Kind.BOOL, Kind.BINARY, Kind.JSON, Kind.ARRAY})
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Load:
    """What to load: the table, how its new rows are found, and the form of the records.

    `incrementing` names a column that only grows, `timestamp` columns with the time of a row's last change, of which
    the first that is not NULL is used; with neither the whole table is loaded once, by its primary key. `key` names the
    columns of the records' key (None: the primary key; empty: no key). `value` is "json" or "avro", with `schema` the
    file of the Avro schema. `job` names the load's position and transactions. Only rows older than `delay_s` by their
    timestamp are loaded; times without a zone are in `zone`.
    """

    url: str
    table: str
    topic: str
    incrementing: str | None = None
    timestamp: Sequence[str] = ()
    key: Sequence[str] | None = None
    value: str = "json"
    schema: Path | None = None
    job: str | None = None
    batch_rows: int = BATCH_ROWS
    delay_s: float = 0
    zone: str = "UTC"

    @property
    def name(self) -> str:
        """The job's name: the given one, or one made of table and topic."""
        return self.job or _NO_NAME.sub("_", f"{self.table}-{self.topic}")

    @property
    def mode(self) -> str:
        """The mode, under Kafka Connect's JDBC source's name for it."""
        if self.timestamp:
            return "timestamp+incrementing" if self.incrementing else "timestamp"
        return "incrementing" if self.incrementing else "bulk"


class Reader(Protocol):
    """The reader of a table, with SQLAlchemy or JDBC. All methods raise PipelineError."""

    def plan(self, after: Position | None, rows: int, most: int) -> list[Range]:
        """Return the next ranges of about `rows` rows each; at most `most` ranges."""
        ...

    def read(self, spark: "SparkSession", ranges: Sequence[Range]) -> list[list[Pair]]:
        """Return the records of each range."""
        ...

    def rows(self, span: Range) -> Iterator[Pair]:
        """Yield the records of one range, in order."""
        ...

    def unordered(self) -> int:
        """Return the number of rows with NULL in the increasing columns."""
        ...

    def waiting(self, after: Position | None) -> int:
        """How many rows are to be loaded now."""
        ...


@dataclass(slots=True)
class _State:
    """The position of a running load."""

    mode: str
    columns: list[str]
    after: Position | None = None
    rows: int = 0
    done: bool = False

    def document(self) -> dict[str, Any]:
        after = None if self.after is None else positions.to_json(self.after)
        return {
            "mode": self.mode, "columns": self.columns, "position": after, "rows": self.rows, "done": self.done
        }  # fmt: skip


@dataclass(slots=True)
class Loader:
    """A started load, which has fenced earlier ones of its job. `run` loads the available rows; it may be repeated."""

    spark: "SparkSession"
    connection: "Connection"
    load: Load
    _names: list[str] = field(init=False)
    _sender: TransactionalSender = field(init=False)
    _reader: Reader = field(init=False)
    _state: _State = field(init=False)
    _starts: dict[int, int] = field(init=False)
    _resumed: int = field(init=False, default=0)
    _was_done: bool = field(init=False, default=False)
    _nulls: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        """Describe the table, fence earlier loads, and read the position. Raises PipelineError."""
        self._reader, self._names, form = _reader(self.spark, self.load)
        if self.load.schema is not None and form.schema is not None:
            keep_schema(self.load.schema, form.schema)
        self._starts = topic_ends(self.connection, self.load.topic)
        self._sender = TransactionalSender(self.connection, self.load.name, self.load.topic)
        self._state = _resume(self._sender.open(), self.load, self._names)
        self._resumed, self._was_done = self._state.rows, self._state.done

    def waiting(self) -> int:
        """How many rows are to be loaded now."""
        return 0 if self._state.done else self._reader.waiting(self._state.after)

    def run(self, meter: Meter, stopped: Callable[[], bool] = lambda: False) -> None:
        """Load all available rows; each range of about `batch_rows` rows is one transaction.

        `stopped` is called before each group of ranges that are read together, one per core up to `_MOST_RANGES`; never
        for a table without a primary key that is loaded as a whole.
        """
        if self._state.done:
            return
        if self.load.mode == "bulk" and not self._state.columns:
            self._whole(meter)
            return
        width = max(1, min(_MOST_RANGES, self.spark.sparkContext.defaultParallelism))
        while not stopped():
            ranges = self._reader.plan(self._state.after, self.load.batch_rows, width)
            if not ranges:
                self._finish_bulk()
                break
            for span, records in zip(ranges, self._reader.read(self.spark, ranges), strict=True):
                self._send(span, records, meter)
        self._nulls = self._reader.unordered()

    def recover(self) -> None:
        """Continue after the committed position, after a TransientError. Raises PipelineError."""
        sent = self._sender.sent
        self._sender = TransactionalSender(self.connection, self.load.name, self.load.topic)
        self._sender.sent = sent
        self._state = _resume(self._sender.open(), self.load, self._names)

    def report(self) -> Report:
        """Return the report on what was loaded since the load began."""
        report = Report("load")
        ends = topic_ends(self.connection, self.load.topic)
        for partition, end in sorted(ends.items()):
            start, count = self._starts.get(partition, 0), self._sender.sent[partition]
            report.partitions.append(PartitionReport(self.load.topic, partition, start, end, count, count))
        report.details = {
            "load": self.load.name,
            "url": shown(self.load.url),
            "table": self.load.table,
            "mode": self.load.mode,
            "rows": self._state.rows - self._resumed,
            "rows_in_all": self._state.rows,
            "position": self._state.document()["position"],
        }
        if self._nulls:
            named = " or ".join(self._state.columns)
            report.incomplete(f"{self._nulls:,} rows have NULL in {named}, so that the load never comes to them")
        if self.load.mode == "bulk" and self._was_done:
            report.notes.append(f"job {self.load.name!r} has loaded the table before; --job names another load")
        return report

    def _send(self, span: Range, records: list[Pair], meter: Meter) -> None:
        self._commit(records, _State(self._state.mode, self._state.columns, span.until, self._state.rows))
        meter.advance(len(records), _size(records))

    def _finish_bulk(self) -> None:
        if self.load.mode == "bulk":
            self._commit([], replace(self._state, done=True))

    def _whole(self, meter: Meter) -> None:
        """Load a table without a primary key, which has no positions: in one transaction, read by one cursor in the
        driver.
        """
        rows = _advancing(self._reader.rows(Range(None, None)), meter)
        self._commit(rows, replace(self._state, done=True))

    def _commit(self, records: Iterable[Pair], reached: "_State") -> None:
        def document(count: int) -> dict[str, Any]:
            self._state = replace(reached, rows=before + count)
            return self._state.document()

        before, known = self._state.rows, self._state
        try:
            self._sender.send(records, document)
        except BaseException:
            self._state = known
            raise


def _size(records: Iterable[Pair]) -> int:
    return sum(len(value) + len(key or b"") for key, value in records)


def _advancing(records: Iterable[Pair], meter: Meter) -> Iterator[Pair]:
    for record in records:
        meter.advance(1, _size([record]))
        yield record


def _reader(spark: "SparkSession", load: Load) -> tuple[Reader, list[str], RowFormat]:
    """Return the table's reader, the increasing columns, and the encoding of records."""
    if is_jdbc(load.url):
        schema, name = split_name(load.table)
        table = Described(schema, name, tuple(jdbc_columns(spark, load.url, load.table)), ())
    else:
        table = described(load.url, load.table)
    order = _order(load, table)
    form = _format(load, table)
    names = [" or ".join(names) for names in order.expressions]
    if is_jdbc(load.url):
        return JdbcReader(spark, load.url, load.table, order, form), names, form
    return TableReader(load.url, table.schema, table.name, order, form), names, form


def _order(load: Load, table: Described) -> Order:
    stamps = [tuple(load.timestamp)] if load.timestamp else []
    growing = [(load.incrementing,)] if load.incrementing else []
    named = [*stamps, *growing] or [(name,) for name in table.primary_key]
    kinds = {column.name: column.kind for column in table.columns}
    for name in (name for names in named for name in names):
        if name not in kinds:
            raise PipelineError(f"{load.table} has no column {name!r}; it has {', '.join(kinds)}")
        if kinds[name] in _WITHOUT_ORDER:
            raise PipelineError(f"a load cannot go by {name!r}: a column of {kinds[name]} does not increase")
    return Order(tuple(named), bool(stamps), load.delay_s, load.zone)


def _format(load: Load, table: Described) -> RowFormat:
    key = tuple(table.primary_key if load.key is None else load.key)
    names = [column.name for column in table.columns]
    if missing := [name for name in key if name not in names]:
        raise PipelineError(f"{load.table} has no column {missing[0]!r}; it has {', '.join(names)}")
    return RowFormat(table.columns, key, avro_schema(table.name, table.columns) if load.value == "avro" else None)


def _resume(stored: dict[str, Any] | None, load: Load, columns: list[str]) -> _State:
    if stored is None:
        return _State(load.mode, columns)
    if (stored["mode"], stored["columns"]) != (load.mode, columns):
        was, now = (f"{mode} by {', '.join(names) or 'nothing'}" for mode, names in (
            (stored["mode"], stored["columns"]), (load.mode, columns)
        ))  # fmt: skip
        raise PipelineError(f"job {load.name!r} went by {was}, this is {now}: name another --job to begin anew")
    after = stored["position"]
    position = None if after is None else positions.from_json(after)
    return _State(load.mode, columns, position, stored["rows"], stored["done"])


def load(spark: "SparkSession", connection: "Connection", what: Load, *, meter: Meter | None = None) -> Report:
    """Load all available rows, once; returns the report. Use `Loader` to repeat it.

    Raises PipelineError if the table, the topic or the database is unsuitable or cannot be reached, and FencedError if
    another load of the same job has started. After any error, the next load of the job continues after the last row in
    the topic.
    """
    loader = Loader(spark, connection, what)
    with progress("load", None, shown=False) as silent:
        loader.run(meter or silent)
    return loader.report()
