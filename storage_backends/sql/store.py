"""All logs of a broker in one database."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import disk_usage
from threading import Lock
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, TextClause, text

from odradek.partitions.model import PartitionKey
from odradek.storage_backends.directories import make_directory
from odradek.storage_backends.interface import LogPolicy, StoreError, StoreSpace, StrayLog
from odradek.storage_backends.malloc import keep_buffers
from odradek.storage_backends.options import StoreOptions
from odradek.storage_backends.outbox import Outbox
from odradek.storage_backends.sql import queries
from odradek.storage_backends.sql.checkpoints import Checkpoints
from odradek.storage_backends.sql.columns.statements import has_columns, has_purgeable
from odradek.storage_backends.sql.columns.views import make_view
from odradek.storage_backends.sql.database import Database
from odradek.storage_backends.sql.errors import mapped
from odradek.storage_backends.sql.group import CommitGroup
from odradek.storage_backends.sql.hot import HotTails
from odradek.storage_backends.sql.migration import upgrade
from odradek.storage_backends.sql.outbox.store import SqlOutbox
from odradek.storage_backends.sql.owner import Owner
from odradek.storage_backends.sql.partition import SqlPartition
from odradek.storage_backends.sql.purge import Purger
from odradek.storage_backends.sql.schema import DEAD, DRAFT, LIVE, STRAY

LOG: Final = logging.getLogger("odradek.storage")
HOT_TAILS: Final = 4
"""The memory for the newest batches of all logs together, as a multiple of `hot_bytes`."""

_BY_KIND: Final = text("SELECT id, name, topic, topic_id, partition FROM odradek_logs WHERE kind = :kind")
_FIND: Final = text(
    "SELECT id FROM odradek_logs WHERE kind = :kind AND topic = :topic AND topic_id = :topic_id "
    "AND partition = :partition"
)
_INSERT: Final = text(
    "INSERT INTO odradek_logs (kind, topic, topic_id, partition, log_start_offset, log_end_offset, clean_offset) "
    "VALUES (:kind, :topic, :topic_id, :partition, 0, 0, 0) RETURNING id"
)
_SET_KIND: Final = text("UPDATE odradek_logs SET kind = :kind, name = :name WHERE id = :log")
_KILL_DRAFTS: Final = text("UPDATE odradek_logs SET kind = :dead WHERE kind = :draft")
_PROPERTIES: Final = text("SELECT name, value FROM odradek_properties")
_SET_PROPERTY: Final = text(
    "INSERT INTO odradek_properties (name, value) VALUES (:name, :value) "
    "ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)


def open_sql_store(url: str, options: StoreOptions) -> "SqlStore":
    """Open the store in the database of a SQLAlchemy URL, creating the schema if there is none."""
    return SqlStore(url, options)


class SqlStore:
    """A `Store`."""

    def __init__(self, url: str, options: StoreOptions | None = None) -> None:
        keep_buffers()
        self.database = Database(url)
        try:
            if self.database.is_sqlite:
                _make_folder(self.database)
            self._owner = Owner(self.database)
        except BaseException:
            self.database.close()
            raise
        self._checkpoints = Checkpoints(self.database) if self.database.is_sqlite else None
        self.group = CommitGroup(self.database, self._owner, self._checkpoints)
        self.tails = HotTails(HOT_TAILS * (options or StoreOptions()).hot_bytes)
        self._outbox = None if self.database.is_sqlite else SqlOutbox(self.database, self.group)
        self._open: dict[PartitionKey, SqlPartition | None] = {}
        """None while a log is being opened, deleted or set aside."""
        self._lock = Lock()
        self._closed = False
        try:
            upgrade(self.database)
            self._owner.take_over()
            self.group.run(_kill_drafts)
            self._purger = Purger(self.group, self._dead())
        except BaseException:
            self._release()
            raise

    def partitions(self) -> Sequence[PartitionKey]:
        """See `Store.partitions`."""
        return sorted(key for _, _, key in self._logs(LIVE))

    def holds(self, key: PartitionKey) -> bool:
        """See `Store.holds`."""
        with self._reading("looking for a log") as connection:
            return _find(connection, key) is not None

    def open(self, key: PartitionKey, policy: LogPolicy) -> SqlPartition:
        """See `Store.open`."""
        self._reserve(key, f"the log of {key} is open already")
        try:
            partition, left_over = self._opened(key, policy)
        except BaseException:
            self.forget(key)
            raise
        with self._lock:
            self._open[key] = partition
        if left_over:
            self.purge_soon(partition)
        return partition

    def _opened(self, key: PartitionKey, policy: LogPolicy) -> tuple[SqlPartition, bool]:
        """Returns the partition, and whether rows below its first segment are still to be deleted."""
        self.group.settle(f"opening {key}")
        with self._reading(f"opening {key}") as connection:
            log = _find(connection, key)
        if log is None:
            log = self.make_log(key, LIVE)
        with self._reading(f"opening {key}") as connection:
            state = queries.load(connection, log)
            first = state.segments[0].base_offset
            had_columns = has_columns(connection, log)
            left_over = queries.has_rows_below(connection, log, first) or has_purgeable(connection, log, first)
        return SqlPartition(self, key, log, state, policy, had_columns=had_columns), left_over

    def _reserve(self, key: PartitionKey, refusal: str) -> None:
        """Keep other threads from the log until it is open or `forget` is called. Raises StoreError if it is open."""
        with self._lock:
            self._check_open()
            if key in self._open:
                raise StoreError(refusal)
            self._open[key] = None

    def delete(self, key: PartitionKey) -> None:
        """See `Store.delete`: the log is removed at once, its rows are deleted in the background."""
        self._reserve(key, f"the log of {key} is open; close it before deleting it")
        try:
            with self._reading(f"deleting {key}") as connection:
                log = _find(connection, key)
            if log is not None:
                self.give_up(log)
        finally:
            self.forget(key)

    def give_up(self, log: int) -> None:
        """Mark a log as dead; its rows are deleted in the background. Raises StoreError."""
        self._set_kind(log, DEAD, None)
        self._purger.delete(log)

    def set_aside(self, key: PartitionKey) -> str:
        """See `Store.set_aside`."""
        self._reserve(key, f"the log of {key} is open")
        try:
            with self._reading(f"setting {key} aside") as connection:
                log = _find(connection, key)
            if log is None:
                raise StoreError(f"there is no log of {key}")
            name = f"{key}.{key.topic_id}-{log}"
            self._set_kind(log, STRAY, name)
        finally:
            self.forget(key)
        return name

    def strays(self) -> Sequence[StrayLog]:
        """See `Store.strays`."""
        found = [StrayLog(name, key) for _, name, key in self._logs(STRAY)]
        return sorted(found, key=lambda each: each.key)

    def take_back(self, name: str) -> None:
        """See `Store.take_back`."""
        log, key = self._stray(name)
        if log is None or key is None or self.holds(key):
            raise StoreError(f"there is no stray log {name}, or its partition has a log")
        self._set_kind(log, LIVE, None)

    def delete_stray(self, name: str) -> None:
        """See `Store.delete_stray`."""
        log, _ = self._stray(name)
        if log is not None:
            self.give_up(log)

    def space(self) -> StoreSpace:
        """See `Store.space`: the space of a PostgreSQL server is unknown."""
        if not self.database.is_sqlite:
            return StoreSpace(self.database.location)
        try:
            usage = disk_usage(self.database.path.parent)
        except OSError as error:
            raise mapped(error, self.database.location, "looking for space") from error
        return StoreSpace(str(self.database.path), usage.total, usage.free)

    def properties(self) -> Mapping[str, str]:
        """See `Store.properties`."""
        with self._reading("reading properties") as connection:
            return {row.name: row.value for row in connection.execute(_PROPERTIES)}

    def set_properties(self, values: Mapping[str, str]) -> None:
        """See `Store.set_properties`."""
        self._check_open()
        rows: list[dict[str, object]] = [{"name": name, "value": value} for name, value in values.items()]
        if rows:
            self.group.run(lambda connection: _execute(connection, _SET_PROPERTY, rows))

    def outbox(self) -> Outbox | None:
        """See `Store.outbox`: in PostgreSQL."""
        return self._outbox

    def close_idle(self) -> int:
        """See `Store.close_idle`: nothing to do, since open logs have no files, and their memory is limited
        together.
        """
        return 0

    def close(self) -> None:
        """See `Store.close`."""
        for partition in list(self._open.values()):
            if partition is not None:
                partition.close()
        if not self._closed:
            self._closed = True
            self._purger.stop()
            self._release()

    def make_log(self, key: PartitionKey, kind: int) -> int:
        """Insert an empty log and return its number. Raises StoreError."""
        made: list[int] = []

        def insert(connection: Connection) -> None:
            made[:] = [connection.execute(_INSERT, {"kind": kind, **_columns(key)}).scalar_one()]

        self.group.run(insert)
        return made[0]

    def forget(self, key: PartitionKey) -> None:
        """Remove a partition from the open ones, after it was closed; end a reservation."""
        with self._lock:
            self._open.pop(key, None)

    def purge_soon(self, partition: SqlPartition) -> None:
        """Delete the rows below the first segment in the background."""
        self._purger.shorten(partition)

    def show(self, topic: str) -> None:
        """Create the view of a topic with rows. A failure is only logged."""
        try:
            make_view(self.database, topic)
        except StoreError as error:
            LOG.warning("topic %s has no view for SQL: %s", topic, error)

    def note_left_over(self, error: StoreError) -> None:
        """Log that unused rows remain until the store is opened next."""
        LOG.warning("rows of a discarded draft stay in %s until the next start: %s", self.database.location, error)

    def _dead(self) -> list[int]:
        return [log for log, _, _ in self._logs(DEAD)]

    def _logs(self, kind: int) -> list[tuple[int, str, PartitionKey]]:
        with self._reading("listing logs") as connection:
            rows = connection.execute(_BY_KIND, {"kind": kind}).all()
        return [
            (log, name or "", PartitionKey(topic, UUID(topic_id), index)) for log, name, topic, topic_id, index in rows
        ]

    def _stray(self, name: str) -> tuple[int | None, PartitionKey | None]:
        return next(((log, key) for log, its_name, key in self._logs(STRAY) if its_name == name), (None, None))

    def _set_kind(self, log: int, kind: int, name: str | None) -> None:
        self.group.run(lambda connection: _execute(connection, _SET_KIND, [{"kind": kind, "name": name, "log": log}]))

    def _reading(self, doing: str):  # noqa: ANN202 - a context manager of a connection
        self._check_open()
        return self.database.reading(doing)

    def _release(self) -> None:
        if self._outbox is not None:
            self._outbox.stop()
        if self._checkpoints is not None:
            self._checkpoints.stop()
        self._owner.release()
        self.database.close()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the store is closed")


def _make_folder(database: Database) -> None:
    try:
        make_directory(Path(database.path).parent)
    except OSError as error:
        raise mapped(error, database.location, "making the folder") from error


def _kill_drafts(connection: Connection) -> None:
    connection.execute(_KILL_DRAFTS, {"dead": DEAD, "draft": DRAFT})


def _execute(connection: Connection, statement: TextClause, rows: list[dict[str, object]]) -> None:
    connection.execute(statement, rows)


def _find(connection: Connection, key: PartitionKey) -> int | None:
    return connection.execute(_FIND, {"kind": LIVE, **_columns(key)}).scalar_one_or_none()


def _columns(key: PartitionKey) -> dict[str, object]:
    return {"topic": key.topic, "topic_id": str(key.topic_id), "partition": key.index}
