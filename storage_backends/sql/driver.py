"""Statements of the commit path, given to the database's driver itself.

A statement costs SQLAlchemy 19 µs as text, and 2 µs at the driver: what a commit of a short batch costs is that. The
connection and its transaction are SQLAlchemy's all the same, and so are the errors.
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
    """Execute the statement for each row; how many rows of the table it changed. Raises what SQLAlchemy raises."""
    with _Cursor(connection) as cursor:
        sql = statement.of_sqlite3 if connection.dialect.name == "sqlite" else statement.of_psycopg
        if len(rows) == 1:
            cursor.execute(sql, rows[0])
        else:
            cursor.executemany(sql, rows)
        return cursor.rowcount


def first(connection: Connection, statement: Statement, row: Row) -> Any:  # noqa: ANN401 - a value of a column
    """The first column of the first row that a query finds; None without one. Raises what SQLAlchemy raises."""
    with _Cursor(connection) as cursor:
        cursor.execute(statement.of_sqlite3 if connection.dialect.name == "sqlite" else statement.of_psycopg, row)
        found = cursor.fetchone()
        return None if found is None else found[0]


class _Cursor:
    """A cursor of the driver, whose errors become SQLAlchemy's."""

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
    """Raise SQLAlchemy's error for a driver's, and give up a connection that is broken; return for other errors."""
    if not isinstance(error, connection.dialect.loaded_dbapi.Error):
        return
    is_broken = connection.dialect.is_disconnect(error, connection.connection.dbapi_connection, None)
    if is_broken:
        connection.invalidate(error)
    raise DBAPIError(None, None, error, connection_invalidated=is_broken) from error
