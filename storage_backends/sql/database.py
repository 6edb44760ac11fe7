"""A database and its connections: how SQLite and PostgreSQL are opened, and the settings that each needs."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, Final

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.pool import QueuePool

from odradek.storage_backends.sql.driver import Statement, run
from odradek.storage_backends.sql.errors import ForeignError, mapped
from odradek.storage_backends.urls import masked_url

READERS: Final = 8
"""The number of pooled connections for readers; more are opened for more concurrent reads."""
PAGE_BYTES: Final = 16_384
CHECKPOINT_PAGES: Final = 4000
BUSY_MS: Final = 30_000
"""The time that SQLite waits for a lock of another process, such as that of a backup."""
IDLE_MS: Final = 30_000
"""The time after which PostgreSQL ends a transaction in which the broker runs no statement."""
_BEGIN: Final = Statement("BEGIN IMMEDIATE")

_PIN: Final = (
    "SELECT set_config('search_path', quote_ident(name), false) FROM (SELECT coalesce((SELECT nspname FROM pg_class "
    "JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE pg_class.oid = to_regclass('odradek_schema')), "
    "current_schema()) AS name) AS of_store WHERE name IS NOT NULL"
)


class Database:
    """Engines for writing and for reading. Methods other than `dedicated` raise only StoreError. `writes` is False for
    a process that only reads: a SQLite file is then not changed, and statements that write to it fail.
    """

    def __init__(self, url: str, *, writes: bool = True) -> None:
        self.url = make_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._writes = writes
        self.location = masked_url(self.url.render_as_string(hide_password=True))
        self._writer = self._engine(pool_size=1, max_overflow=0)
        self._readers = self._engine(pool_size=READERS, max_overflow=-1, isolation_level="AUTOCOMMIT")
        if not self.is_sqlite:
            event.listen(self._writer, "connect", _end_when_idle)
        self._lock = Lock()  # guards the connection that writes to SQLite
        self._kept: Connection | None = None
        if self.is_sqlite:
            event.listen(self._writer, "begin", _begin_immediate)

    @property
    def path(self) -> Path:
        """The file of a SQLite database."""
        return Path(self.url.database or "")

    @contextmanager
    def reading(self, doing: str) -> Generator[Connection]:
        """A connection on which each statement sees everything committed before it."""
        try:
            with self._readers.connect() as connection:
                yield connection
        except ForeignError as error:
            raise mapped(error, self.location, doing) from error

    @contextmanager
    def snapshot(self, doing: str) -> Generator[Connection]:
        """A connection on which all statements see the same snapshot."""
        try:
            with self._readers.connect() as connection:
                if self.is_sqlite:
                    connection.exec_driver_sql("BEGIN")
                else:
                    connection = connection.execution_options(isolation_level="REPEATABLE READ")  # noqa: PLW2901
                try:
                    yield connection
                finally:
                    connection.rollback()
        except ForeignError as error:
            raise mapped(error, self.location, doing) from error

    @contextmanager
    def writing(self, doing: str) -> Generator[Connection]:
        """A connection in a transaction, which is committed at the block's end. One at a time."""
        try:
            with self._writing() as connection:
                yield connection
        except ForeignError as error:
            raise mapped(error, self.location, doing) from error

    @contextmanager
    def _writing(self) -> Generator[Connection]:
        """As `writing`. For SQLite the connection is kept until a transaction fails: getting one from the pool takes
        half the time of a transaction.
        """
        if not self.is_sqlite:
            with self._writer.begin() as connection:
                yield connection
            return
        with self._lock:
            connection = self._kept or self._writer.connect()
            self._kept = None
            try:
                with connection.begin():
                    yield connection
            except BaseException:
                connection.close()
                raise
            self._kept = connection

    def dedicated(self) -> Connection:
        """Return a connection that stays open, for an advisory lock. Raises SQLAlchemy's errors."""
        return self._readers.connect()

    def close(self) -> None:
        """Close all connections."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None
        self._writer.dispose()
        self._readers.dispose()

    def _engine(self, **pool: Any) -> Engine:  # noqa: ANN401 - passed on
        settings: dict[str, Any] = {"poolclass": QueuePool, "pool_pre_ping": not self.is_sqlite, **pool}
        if self.is_sqlite:
            # The driver is in autocommit mode, so that SQLAlchemy alone begins transactions.
            settings["connect_args"] = {"check_same_thread": False, "isolation_level": None, "timeout": BUSY_MS / 1000}
            settings.pop("isolation_level", None)
        engine = create_engine(self.url, **settings)
        if self.is_sqlite:
            event.listen(engine, "connect", _set_up_sqlite if self._writes else _set_up_sqlite_beside)
        else:
            event.listen(engine, "connect", _stay_in_schema)
        return engine


def _set_up_sqlite(connection: Any, _record: object) -> None:  # noqa: ANN401 - a driver's connection
    cursor = connection.cursor()
    # For a new database only. Batches are large; pages of 4 KB would take a quarter more processor time per megabyte.
    cursor.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")
    # In case the thread that copies the log falls behind (`checkpoints`).
    cursor.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    cursor.execute("PRAGMA foreign_keys = ON")
    # Debian's library overwrites deleted data with zeros, which would double the bytes written for batches.
    cursor.execute("PRAGMA secure_delete = OFF")
    cursor.close()


def _set_up_sqlite_beside(connection: Any, _record: object) -> None:  # noqa: ANN401 - a driver's connection
    connection.execute("PRAGMA query_only = ON").close()


def _stay_in_schema(connection: Any, _record: object) -> None:  # noqa: ANN401 - a driver's connection
    """Fix the search path to the store's schema, in case schemas before it in the path are created later.

    The default path begins with a schema named as the user, and the functions for users are in one named `odradek`.
    """
    cursor = connection.cursor()
    cursor.execute(_PIN)
    cursor.close()
    connection.commit()


def _begin_immediate(connection: Connection) -> None:
    run(connection, _BEGIN, [{}])


def _end_when_idle(connection: Any, _record: object) -> None:  # noqa: ANN401 - as for `_stay_in_schema`
    """Let the server end a transaction whose client it does not know to be gone: locks would be held for hours."""
    with connection.cursor() as cursor:
        cursor.execute(f"SET idle_in_transaction_session_timeout = {IDLE_MS}")
    connection.commit()
