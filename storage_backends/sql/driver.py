"""Executes the statements of the commit path with the database's driver directly.

A text statement takes 19 µs in SQLAlchemy and 2 µs in the driver, and that is most of the time of a commit of a short
batch. The connection, its transaction and the errors are SQLAlchemy's.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

Row = Mapping[str, object]

_PARAMETER: Final = re.compile(r"(?<!:):(\w+)")


class Statement:
    """A statement with `:named` parameters, in the styles of both drivers."""

    __slots__ = ("of_psycopg", "of_sqlite3")

    def __init__(self, sql: str) -> None:
        self.of_sqlite3 = sql
        self.of_psycopg = _PARAMETER.sub(r"%(\1)s", sql.replace("%", "%%"))


def run(connection: Connection, statement: Statement, rows: Sequence[Row]) -> int:
    """Execute the statement for each row; return how many rows of the table were changed. Raises SQLAlchemy's
    errors.
    """
    with _Cursor(connection) as cursor:
        sql = statement.of_sqlite3 if connection.dialect.name == "sqlite" else statement.of_psycopg
        if len(rows) == 1:
            cursor.execute(sql, rows[0])
        else:
            cursor.executemany(sql, rows)
        return cursor.rowcount


def first(connection: Connection, statement: Statement, row: Row) -> Any:  # noqa: ANN401 - a value of a column
    """Return the first column of the first row of a query; None if there is no row. Raises SQLAlchemy's errors."""
    with _Cursor(connection) as cursor:
        cursor.execute(statement.of_sqlite3 if connection.dialect.name == "sqlite" else statement.of_psycopg, row)
        found = cursor.fetchone()
        return None if found is None else found[0]


class _Cursor:
    """A cursor of the driver, whose errors are mapped to SQLAlchemy's."""

    __slots__ = ("_connection", "_cursor")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __enter__(self) -> Any:  # noqa: ANN401 - a driver's cursor
        self._cursor = self._connection.connection.cursor()
        return self._cursor

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._cursor.close()
        if error is not None:
            raise_mapped(self._connection, error)


def raise_mapped(connection: Connection, error: BaseException) -> None:
    """Raise SQLAlchemy's error for a driver's, and invalidate the connection if it is broken; return for other
    errors.
    """
    if not isinstance(error, connection.dialect.loaded_dbapi.Error):
        return
    is_broken = connection.dialect.is_disconnect(error, connection.connection.dbapi_connection, None)
    if is_broken:
        connection.invalidate(error)
    raise DBAPIError(None, None, error, connection_invalidated=is_broken) from error
