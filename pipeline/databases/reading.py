"""Reads rows of a table with SQLAlchemy, by ranges of increasing columns: planned in the driver, read in Spark
tasks.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

from odradek.pipeline.databases.columns import POSTGRESQL, SQLITE, Column, Kind
from odradek.pipeline.databases.encode import RowFormat
from odradek.pipeline.databases.engine import database_errors, open_engine, spark_errors
from odradek.pipeline.databases.positions import Position, Range

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from sqlalchemy import ColumnClause, ColumnElement, Connection, FromClause

Pair = tuple[bytes | None, bytes]
"""Key and value of a record."""
_AS_TEXT: Final = frozenset({Kind.JSON, Kind.OTHER})
FETCHED_ROWS: Final = 1000


@dataclass(frozen=True, slots=True)
class Order:
    """The order of a load: expressions over columns, each the first of its columns that is not NULL. With `timestamp`
    the first expression is a time, and only rows older than `delay_s` are loaded; `zone` is that of times without one.
    """

    expressions: tuple[tuple[str, ...], ...]
    timestamp: bool = False
    delay_s: float = 0
    zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class TableReader:
    """The reader of a table, pickled for tasks."""

    url: str
    schema: str | None
    table: str
    order: Order
    format: RowFormat

    def plan(self, after: Position | None, rows: int, most: int) -> list[Range]:
        """Return the next ranges of about `rows` rows each, at most `most`. Rows with equal timestamps are in one
        range. Raises PipelineError.
        """
        with self._reading() as (connection, source):
            limit = self._limit(connection, source)
            marks = self._marks(connection, source, after, limit, rows, most)
        bounds = [after, *marks]
        return [Range(first, last) for first, last in pairwise(bounds) if first != last]

    def unordered(self) -> int:
        """Return the number of rows with NULL in the increasing columns, which are never loaded."""
        from sqlalchemy import func, or_, select

        with self._reading() as (connection, source):
            nulls = [expression.is_(None) for expression in _expressions(source, self.order)]
            return connection.execute(select(func.count()).select_from(source).where(or_(*nulls))).scalar_one()

    def waiting(self, after: Position | None) -> int:
        """Return the number of rows to load."""
        from sqlalchemy import func, select

        with self._reading() as (connection, source):
            query = select(func.count()).select_from(source)
            for condition in self._conditions(source, after, self._limit(connection, source)):
                query = query.where(condition)
            return connection.execute(query).scalar_one()

    def read(self, spark: "SparkSession", ranges: Sequence[Range]) -> list[list[Pair]]:
        """Return the records of each range, read by one task each. Raises PipelineError."""
        context = spark.sparkContext
        with spark_errors():
            return context.parallelize(list(ranges), len(ranges)).map(partial(read_range, self)).collect()

    def rows(self, span: Range) -> Iterator[Pair]:
        """Yield the records of one range, in order."""
        from sqlalchemy import select

        with self._reading() as (connection, source):
            query = select(*(_read_as(source, column) for column in self.format.columns))
            for condition in self._conditions(source, span.after, None):
                query = query.where(condition)
            if span.until is not None:
                query = query.where(_up_to(_expressions(source, self.order), span.until))
            query = query.order_by(*_expressions(source, self.order))
            encode = self.format.encoder()
            for row in connection.execution_options(yield_per=FETCHED_ROWS).execute(query):
                yield encode(tuple(row))

    def _marks(
        self, connection: "Connection", source: "FromClause", after: Position | None,
        limit: "ColumnElement[bool] | None", rows: int, most: int,
    ) -> list[Position]:  # fmt: skip
        """Return the positions of every `rows`-th row, and of the last one to load."""
        from sqlalchemy import func, or_, select

        ordered = [expression.label(f"o{index}") for index, expression in enumerate(_expressions(source, self.order))]
        inner = select(*ordered)
        for condition in self._conditions(source, after, limit):
            inner = inner.where(condition)
        head = inner.order_by(*ordered).limit(rows * most).subquery("head")
        names = [head.c[one.name] for one in ordered]
        counted = select(
            *names, func.row_number().over(order_by=names).label("row"), func.count().over().label("all")
        ).subquery("counted")
        wanted = or_(counted.c.row % rows == 0, counted.c.row == counted.c.all)
        query = select(*(counted.c[one.name] for one in ordered)).where(wanted).order_by(counted.c.row)
        return [tuple(row) for row in connection.execute(query)]

    def _conditions(
        self, source: "FromClause", after: Position | None, limit: "ColumnElement[bool] | None"
    ) -> list["ColumnElement[bool]"]:
        expressions = _expressions(source, self.order)
        found = [expression.is_not(None) for expression in expressions]
        found += [] if after is None else [_behind(expressions, after)]
        return found if limit is None else [*found, limit]

    def _limit(self, connection: "Connection", source: "FromClause") -> "ColumnElement[bool] | None":
        """Return the condition for rows that are old enough, by the database's clock, which sets the timestamps."""
        if not self.order.timestamp:
            return None
        from sqlalchemy import func, or_, select

        stamp = _expressions(source, self.order)[0]
        if connection.dialect.name == SQLITE:
            # SQLite's times are text, with a space or a T, or numbers of unknown unit.
            days = func.julianday("now") - self.order.delay_s / 86400
            return or_(func.typeof(stamp) != "text", func.julianday(stamp) <= days)
        now: datetime = connection.execute(select(func.now())).scalar_one()
        newest = now - timedelta(seconds=self.order.delay_s)
        kinds = {column.name: column.kind for column in self.format.columns}
        if kinds[self.order.expressions[0][0]] is Kind.TIMESTAMP and newest.tzinfo is not None:
            newest = newest.astimezone(ZoneInfo(self.order.zone)).replace(tzinfo=None)
        return stamp <= newest

    @contextmanager
    def _reading(self) -> Generator[tuple["Connection", "FromClause"]]:
        from sqlalchemy import column, quoted_name, table

        engine = open_engine(self.url, exists=True)
        try:
            with (
                database_errors(self.url),
                engine.connect().execution_options(reading=True) as connection,
                connection.begin(),
            ):
                if connection.dialect.name == POSTGRESQL:
                    connection.exec_driver_sql("SET TRANSACTION READ ONLY")
                # SQLAlchemy does not list every reserved word; in other databases quotes would make the name
                # case-sensitive.
                quote = True if connection.dialect.name in {SQLITE, POSTGRESQL} else None
                names: list[ColumnClause[Any]] = [column(quoted_name(one.name, quote)) for one in self.format.columns]
                yield connection, table(quoted_name(self.table, quote), *names, schema=self.schema)
        finally:
            engine.dispose()


def read_range(reader: TableReader, span: Range) -> list[Pair]:
    """Return the records of one range, in a Spark task."""
    return list(reader.rows(span))


def _expressions(source: "FromClause", order: Order) -> list["ColumnElement[Any]"]:
    from sqlalchemy import func

    columns = [[source.c[name] for name in names] for names in order.expressions]
    return [each[0] if len(each) == 1 else func.coalesce(*each) for each in columns]


def _behind(expressions: Sequence["ColumnElement[Any]"], position: Position) -> "ColumnElement[bool]":
    """Return `(a, b) > (x, y)` in SQL that every database supports, and that can use an index on `a`."""
    return _compared(expressions, position, lambda column, value: column > value)


def _up_to(expressions: Sequence["ColumnElement[Any]"], position: Position) -> "ColumnElement[bool]":
    from sqlalchemy import and_, or_

    equal = and_(*(column == value for column, value in zip(expressions, position, strict=True)))
    return or_(_compared(expressions, position, lambda column, value: column < value), equal)


def _compared(
    expressions: Sequence["ColumnElement[Any]"],
    position: Position,
    compare: Callable[["ColumnElement[Any]", Any], "ColumnElement[bool]"],
) -> "ColumnElement[bool]":
    from sqlalchemy import and_, or_

    pairs = list(zip(expressions, position, strict=True))
    steps = [
        and_(*(column == value for column, value in pairs[:index]), compare(*pair)) for index, pair in enumerate(pairs)
    ]
    return or_(*steps)


def _read_as(source: "FromClause", column: Column) -> "ColumnElement[Any]":
    """Return the column, as text if the driver's value would lose information."""
    from sqlalchemy import String, cast

    named = source.c[column.name]
    return cast(named, String()).label(column.name) if column.kind in _AS_TEXT else named
