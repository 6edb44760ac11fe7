"""Statements that run in PostgreSQL itself, over the views of topics."""

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, Final, Self

from odradek.gateway.sql.results import Result, SqlError

psycopg: Final[Any] = import_module("psycopg")

_HINT: Final = (
    "; a topic is a table in PostgreSQL once it has odradek.sql.columns=true, its older records after `odradek sql "
    "--backfill TOPIC`"
)

# Not the first schema of the search path: for a database user called odradek that is the outbox's schema.
_SCHEMA: Final = (
    "SELECT coalesce((SELECT nspname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace "
    "WHERE pg_class.oid = to_regclass('odradek_schema')), current_schema())"
)


class PostgresSession:
    """A `SqlSession` with its own database connection, in a read-only transaction."""

    def __init__(self, url: str) -> None:
        try:
            self._connection: Any = psycopg.connect(url.replace("postgresql+psycopg://", "postgresql://", 1))
            self._connection.read_only = True
            (schema,) = self._connection.execute(_SCHEMA).fetchone()
            views = "topics" if schema == "public" else f"{schema}_topics"
            quoted = ", ".join('"{}"'.format(each.replace('"', '""')) for each in (views, schema))
            self._connection.execute(f"SET search_path = {quoted}")
        except psycopg.Error as error:
            raise SqlError(f"the database cannot be used: {_text(error)}") from error

    def run(self, statement: str) -> Result:
        """See `SqlSession.run`."""
        cursor = self._connection.cursor()
        rows = self._rows(cursor, statement)
        first = next(rows, None)
        columns = [each.name for each in cursor.description or ()]
        return Result(columns, rows if first is None else _chained(first, rows))

    def _rows(self, cursor: Any, statement: str) -> Iterator[Sequence[object]]:  # noqa: ANN401 - psycopg's
        try:
            yield from cursor.stream(statement)
        except psycopg.errors.UndefinedTable as error:
            raise SqlError(_text(error) + _HINT) from error
        except psycopg.Error as error:
            raise SqlError(_text(error)) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def _chained(first: Sequence[object], rest: Iterator[Sequence[object]]) -> Iterator[Sequence[object]]:
    yield first
    yield from rest


def _text(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
