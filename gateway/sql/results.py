"""A statement's result: the names of columns, and rows, which are read on demand."""

from collections.abc import Iterator, Sequence
from typing import Protocol, Self

from odradek.wire.values import immutable


class SqlError(Exception):
    """The statement cannot be run; the message has the reason and advice."""


@immutable
class Result:
    """The rows of one statement, which are not buffered."""

    columns: Sequence[str]
    rows: Iterator[Sequence[object]]


class SqlSession(Protocol):
    """A connection to the topics of one store. Use it as a context manager, which closes it."""

    def run(self, statement: str) -> Result:
        """Run one statement. Raises SqlError, StoreError, also from the result's rows."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...
