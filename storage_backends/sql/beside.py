"""Read access to the logs in a database for processes other than the broker, without locks or writes."""

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Final, Self
from uuid import UUID

from sqlalchemy import text

from odradek.partitions.model import AbortedTransaction, PartitionKey
from odradek.storage_backends.beside import LogGoneError
from odradek.storage_backends.interface import StoreFormatError
from odradek.storage_backends.planning import visible_aborted
from odradek.storage_backends.sql import queries
from odradek.storage_backends.sql.database import Database
from odradek.storage_backends.sql.migration import check_version
from odradek.storage_backends.sql.schema import LIVE

READ_BYTES: Final = 1024 * 1024
"""The maximal size of batches in one read; a larger batch is read by itself."""

_KEYS: Final = text(f"SELECT topic, topic_id, partition FROM odradek_logs WHERE kind = {LIVE}")  # noqa: S608
_ID: Final = text(
    f"SELECT id FROM odradek_logs WHERE kind = {LIVE} AND topic = :topic AND topic_id = :topic_id "  # noqa: S608
    "AND partition = :partition"
)


def open_sql_beside(url: str) -> "SqlLogs":
    """Open the store in a database for reading. Raises StoreFormatError if there is no store of this version,
    StoreError.
    """
    database = Database(url, writes=False)
    if database.is_sqlite and not database.path.is_file():
        raise StoreFormatError(f"there is no database {database.path}")
    try:
        with database.reading("opening") as connection:
            check_version(connection, database)
    except BaseException:
        database.close()
        raise
    return SqlLogs(database)


class SqlLogs:
    """A `LogsBeside`."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def keys(self) -> Sequence[PartitionKey]:
        """See `LogsBeside.keys`."""
        with self.database.reading("listing logs") as connection:
            rows = connection.execute(_KEYS).all()
        return sorted(PartitionKey(topic, UUID(topic_id), index) for topic, topic_id, index in rows)

    def look(self, key: PartitionKey) -> "SqlLogView":
        """See `LogsBeside.look`."""
        return SqlLogView(self.database, key)

    def close(self) -> None:
        """See `LogsBeside.close`."""
        self.database.close()


class SqlLogView:
    """A `LogBeside`."""

    def __init__(self, database: Database, key: PartitionKey) -> None:
        self._database = database
        self._key = key
        with database.snapshot(f"looking at {key}") as connection:
            columns = {"topic": key.topic, "topic_id": str(key.topic_id), "partition": key.index}
            log = connection.execute(_ID, columns).scalar_one_or_none()
            if log is None:
                raise LogGoneError(f"{key} is no more: the topic was deleted")
            state = queries.load(connection, log)
        self._log: int = log
        self.log_start_offset = state.log_start_offset
        self.log_end_offset = state.log_end_offset
        self.aborted: tuple[AbortedTransaction, ...] = tuple(visible_aborted(state.aborted, state.log_start_offset))
        self.producers: Mapping[int, bytes] = {each: row for each, (_, row) in state.producers.items()}

    def values(self, start_offset: int, end_offset: int, since_ms: int | None = None) -> Iterator[tuple[int, bytes]]:
        """See `LogBeside.values`."""
        position, end = start_offset, min(end_offset, self.log_end_offset)
        while position < end:
            with self._database.reading(f"reading {self._key}") as connection:
                found = queries.read_since(connection, self._log, position, self.log_end_offset, READ_BYTES, since_ms)
            if not found:
                return
            for base_offset, last_offset, data in found:
                if base_offset >= end:
                    return
                yield last_offset, data
                position = last_offset + 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing: no connection is held between reads."""
