"""Reads rows of a table with Spark's JDBC source, for databases that SQLAlchemy does not support."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

from odradek.pipeline.databases.columns import Column, Kind
from odradek.pipeline.databases.encode import RowFormat
from odradek.pipeline.databases.engine import spark_errors
from odradek.pipeline.databases.positions import Position, Range
from odradek.pipeline.databases.reading import Order, Pair
from odradek.pipeline.errors import MissingError, PipelineError
from odradek.storage_backends.urls import masked_url as shown

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession

DRIVERS: Final[Mapping[str, str]] = {
    "db2": "com.ibm.db2.jcc.DB2Driver",
    "derby": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
    "h2": "org.h2.Driver",
    "mariadb": "org.mariadb.jdbc.Driver",
    "mysql": "com.mysql.cj.jdbc.Driver",
    "oracle": "oracle.jdbc.OracleDriver",
    "postgresql": "org.postgresql.Driver",
    "sqlite": "org.sqlite.JDBC",
    "sqlserver": "com.microsoft.sqlserver.jdbc.SQLServerDriver",
}
"""The driver class for a URL `jdbc:NAME:…`, which Spark does not find by itself in a jar of spark.jars."""
FETCHED_ROWS: Final = "1000"

_KINDS: Final[Mapping[str, Kind]] = {
    "boolean": Kind.BOOL,
    "byte": Kind.INT,
    "short": Kind.INT,
    "integer": Kind.INT,
    "long": Kind.INT,
    "float": Kind.FLOAT,
    "double": Kind.FLOAT,
    "decimal": Kind.DECIMAL,
    "string": Kind.TEXT,
    "char": Kind.TEXT,
    "varchar": Kind.TEXT,
    "binary": Kind.BINARY,
    "date": Kind.DATE,
    "timestamp": Kind.INSTANT,
    "timestamp_ntz": Kind.TIMESTAMP,
    "array": Kind.ARRAY,
}


def _frame(spark: "SparkSession", url: str, table: str) -> "DataFrame":
    reader = spark.read.format("jdbc").option("url", url).option("dbtable", table)
    driver = DRIVERS.get(url.split(":")[1]) if url.count(":") > 1 else None
    reader = reader.option("preferTimestampNTZ", "true").option("fetchsize", FETCHED_ROWS)
    try:
        with spark_errors():
            return (reader.option("driver", driver) if driver else reader).load()
    except PipelineError as error:
        said = str(error.__cause__)
        if "ClassNotFoundException" in said or "No suitable driver" in said:
            raise MissingError(
                f"{shown(url)}: Spark does not have the driver {driver or 'of this database'}: give its jar as "
                "--conf spark.jars=FILE.jar"
            ) from error
        raise PipelineError(f"{shown(url)}: {_reason(said)}") from error


def _reason(said: str) -> str:
    """Return the first line that names a Java exception, else the beginning of the text."""
    lines = [line.strip() for line in said.splitlines() if "Exception" in line or "Error:" in line]
    return lines[0].removeprefix(": ") if lines else said[:200]


def jdbc_columns(spark: "SparkSession", url: str, table: str) -> list[Column]:
    """Return the table's columns. Raises PipelineError if there is no table, MissingError without its driver's jar."""
    return [_column(field.name, field.dataType, field.nullable) for field in _frame(spark, url, table).schema.fields]


def _column(name: str, declared: Any, nullable: bool) -> Column:  # noqa: ANN401 - Spark's types
    kind = _KINDS.get(declared.typeName().partition("(")[0], Kind.OTHER)
    if kind is Kind.ARRAY:
        return Column(name, kind, nullable, element=_column(name, declared.elementType, declared.containsNull))
    if kind is Kind.DECIMAL:
        return Column(name, kind, nullable, declared.precision, declared.scale)
    return Column(name, kind, nullable)


@dataclass(frozen=True, slots=True)
class JdbcReader:
    """As `reading.TableReader`, with Spark's JDBC source. Each range is one task's query.

    The age of rows is measured by the clock of this process, not by the database's.
    """

    spark: "SparkSession"
    url: str
    table: str
    order: Order
    format: RowFormat

    def plan(self, after: Position | None, rows: int, most: int) -> list[Range]:
        """Return the next ranges of about `rows` rows each, at most `most`; reads only the increasing columns."""
        with spark_errors():
            found = self._head(after, rows * most)
        marks = found[rows - 1 :: rows]
        bounds = [after, *marks, *(found[-1:] if len(found) % rows else [])]
        return [Range(first, last) for first, last in pairwise(bounds) if first != last]

    def read(self, spark: "SparkSession", ranges: Sequence[Range]) -> list[list[Pair]]:
        """Return the records of each range."""
        with spark_errors():
            parts = [self._ordered(span).rdd.mapPartitions(partial(encode_rows, self.format)) for span in ranges]
            return spark.sparkContext.union(parts).glom().collect()

    def rows(self, span: Range) -> Iterator[Pair]:
        """Yield the records of one range."""
        with spark_errors():
            yield from encode_rows(self.format, self._ordered(span).toLocalIterator())

    def unordered(self) -> int:
        """Return the number of rows with NULL in the increasing columns."""
        from pyspark.sql import functions as f

        frame, nulls = self._all(), f.lit(False)  # noqa: FBT003
        for expression in self._expressions():
            nulls |= expression.isNull()
        with spark_errors():
            return frame.where(nulls).count()

    def waiting(self, after: Position | None) -> int:
        """Return the number of rows to load."""
        with spark_errors():
            return self._conditioned(after).count()

    def _head(self, after: Position | None, rows: int) -> list[Position]:
        names = [f"o{index}" for index in range(len(self.order.expressions))]
        columns = [one.alias(name) for one, name in zip(self._expressions(), names, strict=True)]
        head = self._conditioned(after).select(*columns).orderBy(*names).limit(rows)
        instants = [field.dataType.typeName() == "timestamp" for field in head.schema.fields]
        return [
            tuple(one.astimezone(UTC) if instant else one for one, instant in zip(row, instants, strict=True))
            for row in head.collect()
        ]

    def _ordered(self, span: Range) -> "DataFrame":
        """Return the rows of one range in order, as one Spark partition."""
        frame = self._conditioned(span.after, limited=False)
        if span.until is not None:
            frame = frame.where(~self._behind(span.until))
        names = [column.name for column in self.format.columns]
        expressions = self._expressions()
        return (frame.sortWithinPartitions(*expressions) if expressions else frame).select(*names)

    def _conditioned(self, after: Position | None, *, limited: bool = True) -> "DataFrame":
        frame = self._all()
        for expression in self._expressions():
            frame = frame.where(expression.isNotNull())
        if limited and self.order.timestamp:
            frame = frame.where(self._expressions()[0] <= self._newest(frame))
        return frame if after is None else frame.where(self._behind(after))

    def _newest(self, frame: "DataFrame") -> "SparkColumn":
        now = datetime.now(UTC)  # noqa: TID251 - jobs have no Environment
        newest = now - timedelta(seconds=self.order.delay_s)
        kind = frame.schema[self.order.expressions[0][0]].dataType.typeName()
        if kind == "timestamp_ntz":
            newest = newest.astimezone(ZoneInfo(self.order.zone)).replace(tzinfo=None)
        return _literal(newest, kind)

    def _behind(self, position: Position) -> "SparkColumn":
        from pyspark.sql import functions as f

        schema = self._all().schema
        pairs = [
            (expression, _literal(value, schema[names[0]].dataType.simpleString()))
            for expression, names, value in zip(self._expressions(), self.order.expressions, position, strict=True)
        ]
        found = f.lit(False)  # noqa: FBT003
        for index, (expression, value) in enumerate(pairs):
            step = expression > value
            for equal, same in pairs[:index]:
                step &= equal == same
            found |= step
        return found

    def _expressions(self) -> list["SparkColumn"]:
        from pyspark.sql import functions as f

        return [f.coalesce(*map(f.col, names)) if names[1:] else f.col(names[0]) for names in self.order.expressions]

    def _all(self) -> "DataFrame":
        return _frame(self.spark, self.url, self.table)


def _literal(value: Any, kind: str) -> "SparkColumn":  # noqa: ANN401 - a position's value
    """Return the value as a literal from its text: Spark would interpret a Python time without a zone in the process's
    time zone.
    """
    from pyspark.sql import functions as f

    return f.lit(value.isoformat() if isinstance(value, date) else str(value)).cast(kind)


def encode_rows(form: RowFormat, rows: Iterable[Any]) -> Iterator[Pair]:
    """Return Spark's rows as records. Spark returns instants as times without a zone, in the process's time zone."""
    encode = form.encoder()
    instants = [column.kind is Kind.INSTANT for column in form.columns]
    for row in rows:
        zoned = (one.astimezone(UTC) if instant and one else one for one, instant in zip(row, instants, strict=True))
        yield encode(tuple(zoned))
