"""Topics as virtual tables of SQLite: rows are decoded batch by batch, as a statement needs them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from odradek.gateway.beside.catalog import Topic
from odradek.gateway.beside.committed import committed_records
from odradek.gateway.sql.bounds import OFFSET, PARTITION, Bounds, decode, encode, is_used
from odradek.gateway.sql.functions import SqlValue
from odradek.storage_backends.beside import LogGoneError, LogsBeside
from odradek.storage_backends.headers import headers_as_json

MODULE: Final = "odradek_topic"
_SCHEMA: Final = (
    'CREATE TABLE topic ("partition" INTEGER, "offset" INTEGER, "timestamp" INTEGER, "key" BLOB, "value" BLOB, '
    '"headers" TEXT)'
)
_ORDERED: Final = ([(PARTITION, False)], [(PARTITION, False), (OFFSET, False)])
"""The orders in which rows are produced anyway."""
_PARTITION_SHIFT: Final = 44
_FULL_SCAN_COST: Final = 1e9

Row = tuple[int, int, int, bytes | None, bytes | None, str | None]


class TopicModule:
    """Creates the tables; the one argument of each is the topic's index in `topics`."""

    def __init__(self, logs: LogsBeside, topics: Sequence[Topic]) -> None:
        self._logs, self._topics = logs, topics

    def Connect(  # noqa: N802 - apsw's name
        self, _connection: object, _module: str, _database: str, _table: str, *arguments: SqlValue
    ) -> "tuple[str, TopicTable]":
        """Return the columns and the table."""
        return _SCHEMA, TopicTable(self._logs, self._topics[int(str(arguments[0]))])

    Create = Connect


class TopicTable:
    """One topic."""

    def __init__(self, logs: LogsBeside, topic: Topic) -> None:
        self._logs, self._topic = logs, topic

    def BestIndex(  # noqa: N802 - apsw's name
        self, constraints: Sequence[tuple[int, int]], orders: Sequence[tuple[int, bool]]
    ) -> tuple[list[int | None], int, str, bool, float]:
        """Return which conditions narrow what is read, and whether the rows have the requested order."""
        used = [each for each in constraints if is_used(*each)]
        argument_numbers = iter(range(len(used)))
        arguments = [next(argument_numbers) if is_used(*each) else None for each in constraints]
        is_ordered = list(orders) in _ORDERED
        return arguments, 0, encode(used), is_ordered, _FULL_SCAN_COST / 10 ** len({column for column, _ in used})

    def Open(self) -> "TopicCursor":  # noqa: N802 - apsw's name
        """A new cursor over the topic."""
        return TopicCursor(self._logs, self._topic)

    def Disconnect(self) -> None:  # noqa: N802 - apsw's name
        """Nothing to release."""

    Destroy = Disconnect


class TopicCursor:
    """Iterates over the rows of one scan of the topic."""

    def __init__(self, logs: LogsBeside, topic: Topic) -> None:
        self._logs, self._topic = logs, topic
        self._rows: Iterator[Row] = iter(())
        self._row: Row | None = None

    def Filter(self, _number: int, conditions: str | None, values: Sequence[SqlValue]) -> None:  # noqa: N802
        """Begin a scan of the rows within the conditions."""
        bounds = decode(conditions or "", values)
        self._rows = iter(()) if bounds is None else rows(self._logs, self._topic, bounds)
        self.Next()

    def Next(self) -> None:  # noqa: N802 - apsw's name
        """Go to the next row."""
        self._row = next(self._rows, None)

    def Eof(self) -> bool:  # noqa: N802 - apsw's name
        """True if all rows have been read."""
        return self._row is None

    def Column(self, number: int) -> SqlValue:  # noqa: N802 - apsw's name
        """A column of the row; -1 for the row's number."""
        assert self._row is not None
        return self.Rowid() if number < 0 else self._row[number]

    def Rowid(self) -> int:  # noqa: N802 - apsw's name
        """The row's number, made of partition and offset."""
        assert self._row is not None
        return self._row[0] << _PARTITION_SHIFT | self._row[1]

    def Close(self) -> None:  # noqa: N802 - apsw's name
        """Stop the scan."""
        self._rows = iter(())


def rows(logs: LogsBeside, topic: Topic, bounds: Bounds) -> Iterator[Row]:
    """Yield the committed records within the bounds, by partition and offset."""
    for index, key in sorted(topic.items()):
        if bounds.has_partition(index):
            try:
                for record in committed_records(logs, key, bounds.wanted):
                    offset, timestamp_ms, record_key, value, headers = record
                    yield index, offset, timestamp_ms, record_key, value, headers_as_json(headers)
            except LogGoneError:
                continue  # never used, or deleted since


def tables_for(statement: str, topics: Mapping[str, Topic]) -> Mapping[str, Topic]:
    """The topics that become tables.

    SQLite's names ignore case: of topics whose names differ only by case, the one in the statement becomes a table.
    """
    chosen: dict[str, str] = {}
    for name in sorted(topics):
        if name.casefold() not in chosen or name in statement:
            chosen[name.casefold()] = name
    return {name: topics[name] for name in chosen.values()}
