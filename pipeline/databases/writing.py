"""Writes records in a Spark task: in groups, each in one transaction with the offset after its last record."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final

from odradek.pipeline.databases.bookkeeping import Bookkeeping, DeadLetter
from odradek.pipeline.databases.columns import POSTGRESQL, SQLITE
from odradek.pipeline.databases.decode import binder
from odradek.pipeline.databases.engine import database_errors, is_about_data, open_engine, text_of
from odradek.pipeline.databases.rows import Change, Record, RecordMapping
from odradek.pipeline.worker import spare_worker

if TYPE_CHECKING:
    from sqlalchemy import ColumnClause, Connection, Engine
    from sqlalchemy.sql.dml import Delete, Insert

DIALECTS: Final = (SQLITE, POSTGRESQL)
Placed = tuple[Record, Change]
RecordBatch = Any
"""pyarrow has no types."""


@dataclass(frozen=True, slots=True)
class WritePlan:
    """The parameters of a task, pickled."""

    url: str
    schema: str | None
    table: str
    books: Bookkeeping
    mapping: RecordMapping
    epoch: int
    batch_rows: int


def write_batches(plan: WritePlan, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
    """Write the records of one Spark partition, which is a range of one topic partition, in order; yields nothing.

    For `mapInArrow`. Records below the stored offset are skipped, so a repeated task changes nothing. Raises
    PipelineError, FencedExportError among others.
    """
    with database_errors(plan.url), closing(Writer(plan)) as writer:
        for partition, records in groupby(records_of(batches), key=lambda record: record.partition):
            while chunk := list(islice(records, plan.batch_rows)):
                writer.write(partition, chunk)
    spare_worker()
    yield from ()


def records_of(batches: Iterable[RecordBatch]) -> Iterator[Record]:
    """Yield the records of Spark's batches of `partition, offset, timestamp in ms, key, value`."""
    for batch in batches:
        yield from map(Record._make, zip(*(column.to_pylist() for column in batch.columns), strict=True))


class Writer:
    """Writes to one table, with one statement for each set of columns of records."""

    def __init__(self, plan: WritePlan) -> None:
        from sqlalchemy import column, quoted_name, table

        self._engine: Engine = open_engine(plan.url)
        self._plan = plan
        self._change_of = plan.mapping.changes_of()
        names: list[ColumnClause[Any]] = [column(quoted_name(one.name, quote=True)) for one in plan.mapping.columns]
        self._table = table(quoted_name(plan.table, quote=True), *names, schema=plan.schema)
        self._binders = {one.name: binder(one, self._engine.dialect.name) for one in plan.mapping.columns}
        self._connection = self._engine.connect()

    def write(self, partition: int, records: Sequence[Record]) -> None:
        """Commit the records and the offset after the last one in one transaction. Raises FencedExportError."""
        books = self._plan.books
        connection = self._connection
        with connection.begin():
            begin = books.claim(connection, partition, self._plan.epoch)
            fresh = [record for record in records if record.offset >= begin]
            if not fresh:
                return
            if connection.dialect.name == POSTGRESQL:
                # A row that a deferred constraint refuses becomes a dead letter, instead of failing the commit.
                connection.exec_driver_sql("SET CONSTRAINTS ALL IMMEDIATE")
            changes, letters = self._sorted(fresh)
            failed = apply(connection, changes, self._apply)
            letters += failed
            books.add_dead_letters(connection, partition, sorted(letters, key=lambda letter: letter.offset))
            lost = {letter.offset for letter in failed}
            done = [change.row is not None for record, change in changes if record.offset not in lost]
            books.advance(
                connection, partition, fresh[-1].offset + 1,
                written=sum(done), deleted=len(done) - sum(done), dead=len(letters),
            )  # fmt: skip

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
        self._engine.dispose()

    def _sorted(self, records: Sequence[Record]) -> tuple[list[Placed], list[DeadLetter]]:
        changes: list[Placed] = []
        letters: list[DeadLetter] = []
        for record in records:
            try:
                changes.append((record, self._change_of(record)))
            except ValueError as error:
                letters.append(_letter(record, str(error)))
        return changes, letters

    def _apply(self, connection: "Connection", changes: Sequence[Change]) -> None:
        for run in runs(changes):
            deleted = [
                self._parameters(zip(self._plan.mapping.key, one.key, strict=True)) for one in run if one.row is None
            ]
            if deleted:
                connection.execute(self._delete(), deleted)
            rows = sorted((one.row for one in run if one.row is not None), key=sorted)
            for names, same in groupby(rows, key=sorted):
                connection.execute(self._insert(names), [self._parameters(row.items()) for row in same])

    def _parameters(self, values: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        return {name: None if value is None else self._binders[name](value) for name, value in values}

    def _delete(self) -> "Delete":
        from sqlalchemy import bindparam, delete

        return delete(self._table).where(*(self._table.c[name] == bindparam(name) for name in self._plan.mapping.key))

    def _insert(self, names: Sequence[str]) -> "Insert":
        from sqlalchemy import bindparam
        from sqlalchemy.dialects import postgresql, sqlite

        insert = postgresql.insert if self._engine.dialect.name == POSTGRESQL else sqlite.insert
        statement = insert(self._table).values({name: bindparam(name) for name in names})
        if self._plan.mapping.mode == "append":
            return statement
        key = list(self._plan.mapping.key)
        others = {name: statement.excluded[name] for name in names if name not in key}
        if not others:
            return statement.on_conflict_do_nothing(index_elements=key)
        return statement.on_conflict_do_update(index_elements=key, set_=others)


def runs(changes: Sequence[Change]) -> Iterator[list[Change]]:
    """Divide the changes into runs with one change per key, the last one, since it replaces the others. A run ends
    before a change of the same key with other columns, which does not replace the earlier one.
    """
    run: dict[tuple[Any, ...], Change] = {}
    for change in changes:
        before = run.get(change.key)
        if before is not None and set(before.row or ()) != set(change.row or ()) and before.row and change.row:
            yield list(run.values())
            run = {}
        run.pop(change.key, None)
        run[change.key] = change
    if run:
        yield list(run.values())


def apply(
    connection: "Connection", placed: Sequence[Placed], together: Callable[["Connection", Sequence[Change]], None]
) -> list[DeadLetter]:
    """Apply the changes, all together, or if a row is refused one by one. Returns those that the database refused."""
    if not placed:
        return []
    try:
        with connection.begin_nested():
            together(connection, [change for _, change in placed])
    except Exception as error:
        if not is_about_data(error):
            raise
    else:
        return []
    refused: list[DeadLetter] = []
    for record, change in placed:
        try:
            with connection.begin_nested():
                together(connection, [change])
        except Exception as error:
            if not is_about_data(error):
                raise
            refused.append(_letter(record, text_of(error)))
    return refused


def _letter(record: Record, error: str) -> DeadLetter:
    # databases refuse NUL and unpaired surrogates in text
    reason = error.replace("\x00", "\\0").encode(errors="backslashreplace").decode()
    return DeadLetter(record.offset, record.timestamp_ms, record.key, record.value, reason)
