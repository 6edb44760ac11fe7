"""Copies SQLite's write-ahead log into the database file while commits go on, not at the end of some of them.

A commit is durable in the write-ahead log (WAL). SQLite itself copies the log, once it has grown to a limit, at the end
of a commit, which then waits for as many bytes again and their sync: that is two fifths of the time of large commits.
Here a thread copies what has come since its last pass. Since writers go on meanwhile, the log is never copied as a
whole, and only then SQLite begins it anew; so once it is long, the commits wait for the rest of it, which is short.
"""

import logging
from threading import Condition, Lock, Thread
from typing import Final

from odradek.storage_backends.interface import StoreError
from odradek.storage_backends.sql.database import PAGE_BYTES, Database

LOG: Final = logging.getLogger("odradek.storage")
PASS_BYTES: Final = 8 * 1024 * 1024
"""The number of written bytes after which the thread runs a checkpoint."""
WHOLE_BYTES: Final = 48 * 1024 * 1024
"""After so many the commits wait until the log is copied as a whole."""
_TRANSACTION_BYTES: Final = 5 * PAGE_BYTES
"""The pages of a transaction beside those of its batches: of tables' and indexes' ends, logs and segments."""


class Checkpoints:
    """A thread for the database of a broker. What is not copied when it stops, SQLite copies as it closes the file."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._condition = Condition()
        self._copying = Lock()
        self._since_pass_bytes = self._since_whole_bytes = 0
        self._is_stopped = False
        self._has_failed = False
        self._thread = Thread(target=self._run, name="odradek-checkpoint", daemon=True)
        self._thread.start()

    def committed(self, size_bytes: int) -> None:
        """Take note of a transaction with batches of so many bytes, after its commit. No other commits meanwhile."""
        with self._condition:
            self._since_pass_bytes += size_bytes + _TRANSACTION_BYTES
            self._since_whole_bytes += size_bytes + _TRANSACTION_BYTES
            is_long = self._since_whole_bytes >= WHOLE_BYTES
            if is_long:
                self._since_pass_bytes = self._since_whole_bytes = 0
            elif self._since_pass_bytes >= PASS_BYTES:
                self._condition.notify()
        if is_long:
            self._copy()

    def stop(self) -> None:
        """End after the pass under way. Idempotent."""
        with self._condition:
            self._is_stopped = True
            self._condition.notify()
        self._thread.join()

    def _run(self) -> None:
        while self._is_due():
            self._copy()

    def _is_due(self) -> bool:
        """Wait until there is something to copy; False when that is over."""
        with self._condition:
            while self._since_pass_bytes < PASS_BYTES and not self._is_stopped:
                self._condition.wait()
            self._since_pass_bytes = 0
            return not self._is_stopped

    def _copy(self) -> None:
        """Copy what is in the log by now. One that fails is said once: the commits go on in the log."""
        try:
            with self._copying, self._database.reading("copying the write-ahead log") as connection:
                connection.exec_driver_sql("PRAGMA wal_checkpoint(PASSIVE)").close()
            self._has_failed = False
        except StoreError as error:
            if not self._has_failed:
                LOG.warning("the write-ahead log grows until it can be copied into the database: %s", error)
            self._has_failed = True
