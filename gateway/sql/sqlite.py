"""SQL over topics of data directories and SQLite stores, in an in-memory SQLite database."""

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final, Self

from odradek.gateway.beside.catalog import INTERNAL_TOPICS, Catalog, Topic
from odradek.gateway.sql.functions import FUNCTIONS
from odradek.gateway.sql.results import Result, SqlError
from odradek.gateway.sql.tables import MODULE, TopicModule, tables_for
from odradek.storage_backends.beside import LogsBeside

apsw: Final[Any] = import_module("apsw")
"""Imported untyped, since its types use a buffer type that Python 3.11 does not have."""


@contextmanager
def _explained(topics: Collection[str]) -> Generator[None]:
    """Convert SQLite's errors to SqlError; our own errors pass through it unchanged."""
    try:
        yield
    except apsw.Error as error:
        text = str(error)
        if "no such table" in text:
            text += f"; the topics here are {', '.join(sorted({*topics} - INTERNAL_TOPICS)) or 'none'}"
        raise SqlError(text) from error


class SqliteSession:
    """A `SqlSession`. Closing it closes `logs`."""

    def __init__(self, logs: LogsBeside) -> None:
        self._logs = logs
        self._connection: Any = apsw.Connection(":memory:")
        for name, function in FUNCTIONS.items():
            self._connection.create_scalar_function(name, function, 1, deterministic=True)

    def run(self, statement: str) -> Result:
        """See `SqlSession.run`."""
        topics = tables_for(statement, Catalog(self._logs).topics())
        self._make_tables(topics)
        cursor = self._connection.cursor()
        selects: list[tuple[str, ...]] = []

        def note(traced_cursor: Any, _sql: str, _bindings: object) -> bool:  # noqa: ANN401 - apsw's
            if description := traced_cursor.get_description():
                selects.append(tuple(name for name, *_ in description))
            if len(selects) > 1:
                raise SqlError("there are several statements with a result: run them one by one")
            return True

        cursor.exec_trace = note
        with _explained(topics):
            cursor.execute(statement)
        return Result(selects[0] if selects else (), self._rows(cursor, topics))

    def _rows(self, cursor: Iterator[Sequence[object]], topics: Collection[str]) -> Iterator[Sequence[object]]:
        with _explained(topics):
            yield from cursor

    def _make_tables(self, topics: Mapping[str, Topic]) -> None:
        self._connection.create_module(MODULE, TopicModule(self._logs, list(topics.values())), read_only=True)
        for number, name in enumerate(topics):
            self._connection.execute(f'CREATE VIRTUAL TABLE IF NOT EXISTS temp."{name}" USING {MODULE}({number})')

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._logs.close()
