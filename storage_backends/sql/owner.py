"""One broker owns a database. A lock excludes a second one; an epoch fences a broker that has lost the lock.

The lock is released when the process ends: for SQLite it is one on a file beside the database, in PostgreSQL an
advisory lock of a connection. That connection can break while the process continues, and another broker may then take
over; it increments the epoch in `odradek_owner`. Each transaction that writes checks the epoch, in PostgreSQL with a
shared lock on the row, so that a takeover waits for a transaction in progress, and all later ones of the old owner
fail.
"""

from contextlib import suppress
from typing import Final

from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError

from odradek.storage_backends.interface import StoreLockedError
from odradek.storage_backends.locks import FileLock
from odradek.storage_backends.sql.database import Database
from odradek.storage_backends.sql.driver import Statement, first
from odradek.storage_backends.sql.errors import mapped

_LOCK_ID: Final = 0x0D4ADE4B
# The lock is per schema: several stores may share a database.
_TRY_LOCK: Final = text("SELECT pg_try_advisory_lock(:id, hashtext(current_schema()))")
_UNLOCK: Final = text("SELECT pg_advisory_unlock(:id, hashtext(current_schema()))")
_RAISE: Final = text("UPDATE odradek_owner SET epoch = epoch + 1 WHERE id = 1")
_INSERT: Final = text(
    "INSERT INTO odradek_owner (id, epoch) SELECT 1, 0 WHERE NOT EXISTS (SELECT 1 FROM odradek_owner)"
)
_EPOCH: Final = text("SELECT epoch FROM odradek_owner WHERE id = 1")
_CHECK: Final = Statement("SELECT epoch FROM odradek_owner WHERE id = 1")
_CHECK_SHARED: Final = Statement("SELECT epoch FROM odradek_owner WHERE id = 1 FOR SHARE")
_ALONE: Final = Statement("SELECT epoch FROM odradek_owner WHERE id = 1 FOR UPDATE NOWAIT")


class Owner:
    """Ownership of a database. The constructor takes the lock. Raises StoreLockedError, StoreError."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._check = _CHECK if database.is_sqlite else _CHECK_SHARED
        self._file: FileLock | None = None
        self._session: Connection | None = None
        self.epoch = -1
        if database.is_sqlite:
            self._lock_file()
        else:
            self._lock_session()

    def take_over(self) -> None:
        """Fence all earlier owners. Call it after the schema was created."""
        with self._database.writing("taking the database over") as connection:
            connection.execute(_INSERT)
            connection.execute(_RAISE)
            self.epoch = connection.execute(_EPOCH).scalar_one()

    def check(self, connection: Connection) -> None:
        """Check the epoch, in every transaction that writes. Raises StoreLockedError if another broker has taken
        over.
        """
        if first(connection, self._check, {}) != self.epoch:
            raise StoreLockedError(f"another broker has taken over {self._database.location}: this one writes no more")

    def check_alone(self, connection: Connection) -> None:
        """Raise SQLAlchemy's error if another transaction has not ended: each holds a shared lock of the owner's row.

        It does not wait: the server may be committing for long, and notices a broken connection with a delay.
        """
        first(connection, _ALONE, {})

    def release(self) -> None:
        """Release the lock. Idempotent."""
        if self._file is not None:
            self._file.release()
            self._file = None
        if self._session is not None:
            # The server notices a closed connection with a delay, and the next process may start at once.
            with suppress(SQLAlchemyError):
                self._session.execute(_UNLOCK, {"id": _LOCK_ID})
            self._session.invalidate()
            self._session.close()
            self._session = None

    def _lock_file(self) -> None:
        path = self._database.path.with_name(self._database.path.name + ".lock")
        try:
            self._file = FileLock(path)
        except BlockingIOError:
            raise self._is_locked() from None
        except OSError as error:
            raise mapped(error, self._database.location, "opening the lock file") from error

    def _lock_session(self) -> None:
        try:
            self._session = self._database.dedicated()
            locked = self._session.execute(_TRY_LOCK, {"id": _LOCK_ID}).scalar_one()
        except SQLAlchemyError as error:
            self.release()
            raise mapped(error, self._database.location, "opening the database") from error
        if not locked:
            self.release()
            raise self._is_locked()

    def _is_locked(self) -> StoreLockedError:
        return StoreLockedError(
            f"{self._database.location} is in use by another broker: stop it, or use another database"
        )
