"""Commits of several partitions in one transaction.

The first thread commits; the units of other threads that arrive in the meantime wait for the next transaction, which
one of them commits for all. So a database with a hundred syncs per second handles thousands of commits per second.
"""

from collections.abc import Callable
from threading import Condition
from typing import Final

from sqlalchemy import Connection

from odradek.storage_backends.interface import StoreError
from odradek.storage_backends.sql.checkpoints import Checkpoints
from odradek.storage_backends.sql.database import Database
from odradek.storage_backends.sql.owner import Owner

Unit = Callable[[Connection], None]
"""The statements of one partition in the transaction. Raises SQLAlchemy's errors."""

MAX_BYTES: Final = 16 * 1024 * 1024
"""Units are added to a transaction until their size reaches this limit."""


class _Waiting:
    __slots__ = ("done", "error", "size_bytes", "unit")

    def __init__(self, unit: Unit, size_bytes: int) -> None:
        self.unit, self.size_bytes = unit, size_bytes
        self.done = False
        self.error: Exception | None = None


class CommitGroup:
    """Runs units in transactions, in order of arrival. Any number of threads may wait in `run`."""

    def __init__(self, database: Database, owner: Owner, checkpoints: Checkpoints | None = None) -> None:
        self._database, self._owner, self._checkpoints = database, owner, checkpoints
        self._condition = Condition()
        self._waiting: list[_Waiting] = []
        self._is_committing = False
        self._failures = self._settled_failures = 0
        self.transactions = 0

    def run(self, unit: Unit, size_bytes: int = 0) -> None:
        """Run the unit, and wait until its transaction is committed.

        Raises StoreError if it is not committed, or if that is unknown. A unit is never committed in part. All units of
        one transaction fail together.
        """
        mine = _Waiting(unit, size_bytes)
        with self._condition:
            self._waiting.append(mine)
            while self._is_committing and not mine.done:
                self._condition.wait()
            if not mine.done:
                self._is_committing = True
        if not mine.done:
            self._lead(mine)
        if mine.error is not None:
            raise mine.error

    def settle(self, purpose: str) -> None:
        """Raise StoreError while a transaction is left whose commit failed with an unknown outcome; to be called before
        a log is read that may continue at the same offset. `purpose` is part of the error.

        Only one transaction writes at a time, so all others that the server has are of broken connections. SQLite has
        no server that could still commit one.
        """
        failures = self._failures
        if self._settled_failures != failures and not self._database.is_sqlite:
            with self._database.writing(purpose) as connection:
                self._owner.check_alone(connection)
            self._settled_failures = failures

    @property
    def waiting(self) -> int:
        """The number of units waiting for a transaction."""
        return len(self._waiting)

    def _lead(self, mine: _Waiting) -> None:
        """Commit units until `mine` is done; then one of the waiting threads takes over."""
        try:
            while not mine.done:
                units = self._take()
                self._commit(units)
                if self._checkpoints is not None:
                    self._checkpoints.committed(sum([each.size_bytes for each in units]))
        finally:
            with self._condition:
                self._is_committing = False
                self._condition.notify_all()

    def _take(self) -> list[_Waiting]:
        with self._condition:
            size_bytes, count = 0, 0
            while count < len(self._waiting) and (not count or size_bytes < MAX_BYTES):
                size_bytes += self._waiting[count].size_bytes
                count += 1
            taken, self._waiting = self._waiting[:count], self._waiting[count:]
            return taken

    def _commit(self, units: list[_Waiting]) -> None:
        error: Exception | None = None
        try:
            with self._database.writing("committing") as connection:
                self._owner.check(connection)
                for each in units:
                    each.unit(connection)
        except StoreError as failure:
            error = failure
        except BaseException as failure:
            error = StoreError(f"unexpected {type(failure).__name__}: {failure}")
            raise
        finally:
            with self._condition:
                self.transactions += 1
                self._failures += error is not None
                for each in units:
                    each.error, each.done = error, True
                self._condition.notify_all()
