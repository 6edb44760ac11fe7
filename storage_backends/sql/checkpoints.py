"""Copies SQLite's write-ahead log into the database file in a thread, concurrently with commits.

A commit is durable in the write-ahead log (WAL). SQLite itself copies the log at the end of a commit, once it has grown
to a limit; that commit then waits until the same number of bytes is written again and synced, which is two fifths of
the time of large commits. Here a thread copies what was written since its last pass. SQLite only restarts the log after
all of it was copied, which never happens while writers continue; so once the log is long, commits wait until the rest
of it, which is short, is copied.
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
"""The number of written bytes after which commits wait until the whole log is copied."""
_TRANSACTION_BYTES: Final = 5 * PAGE_BYTES
"""The size of a transaction's pages other than those of its batches: the ends of tables and indexes, logs and
segments.
"""


class Checkpoints:
    """A checkpoint thread for a broker's database. The rest is copied by SQLite when it closes the file."""

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
        """Count a committed transaction with `size_bytes` of batches. Must not be called concurrently with commits."""
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
        """Stop the thread after its current pass. Idempotent."""
        with self._condition:
            self._is_stopped = True
            self._condition.notify()
        self._thread.join()

    def _run(self) -> None:
        while self._is_due():
            self._copy()

    def _is_due(self) -> bool:
        """Wait until there is something to copy; return False once stopped."""
        with self._condition:
            while self._since_pass_bytes < PASS_BYTES and not self._is_stopped:
                self._condition.wait()
            self._since_pass_bytes = 0
            return not self._is_stopped

    def _copy(self) -> None:
        """Copy the current contents of the log. Of consecutive failures only the first is logged; commits continue in
        the log.
        """
        try:
            with self._copying, self._database.reading("copying the write-ahead log") as connection:
                connection.exec_driver_sql("PRAGMA wal_checkpoint(PASSIVE)").close()
            self._has_failed = False
        except StoreError as error:
            if not self._has_failed:
                LOG.warning("the write-ahead log grows until it can be copied into the database: %s", error)
            self._has_failed = True
