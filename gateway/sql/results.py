"""What a statement gives: names of columns and rows, which are read as they are asked for."""

from collections.abc import Iterator, Sequence
from typing import Protocol, Self

from odradek.wire.values import immutable


class SqlError(Exception):
    """The statement cannot be run; the message says why and what to do."""


@immutable
class Result:
    """The rows of one statement. None of them is kept."""

    columns: Sequence[str]
    rows: Iterator[Sequence[object]]


class SqlSession(Protocol):
    """A connection that knows the topics of one store. To be used as a context, which closes it."""

    def run(self, statement: str) -> Result:
        """Run one statement. Raises SqlError, StoreError, also from the result's rows."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...
