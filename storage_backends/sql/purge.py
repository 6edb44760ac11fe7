"""Deletes rows that no log contains any more, in the background and in small transactions, so that producers hardly
wait.
"""

import logging
from collections import deque
from collections.abc import Iterable
from threading import Condition, Thread
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection

from odradek.storage_backends.interface import StoreError
from odradek.storage_backends.sql.columns import statements as columns
from odradek.storage_backends.sql.group import CommitGroup
from odradek.storage_backends.sql.statements import delete_log, purge

if TYPE_CHECKING:
    from odradek.storage_backends.sql.partition import SqlPartition

LOG: Final = logging.getLogger("odradek.storage")
ROWS: Final = 256
"""The number of batches that one transaction deletes."""
RECORDS: Final = 5000
"""The number of rows of records that one transaction deletes."""
_BEYOND_ALL: Final = 2**63 - 1


class Purger:
    """A thread with a queue of logs to purge. Work left when it stops is found again when the store and its logs are
    opened.
    """

    def __init__(self, group: CommitGroup, dead: Iterable[int]) -> None:
        self._group = group
        self._condition = Condition()
        self._queue: deque[int | SqlPartition] = deque(dead)
        self._stopped = False
        self._thread = Thread(target=self._run, name="odradek-purge", daemon=True)
        self._thread.start()

    def delete(self, log: int) -> None:
        """Delete a dead log."""
        self._put(log)

    def shorten(self, partition: "SqlPartition") -> None:
        """Delete the batches below the partition's first segment."""
        self._put(partition)

    def stop(self) -> None:
        """Stop after the current transaction."""
        with self._condition:
            self._stopped = True
            self._condition.notify()
        self._thread.join()

    def _put(self, work: "int | SqlPartition") -> None:
        with self._condition:
            if work not in self._queue:
                self._queue.append(work)
                self._condition.notify()

    def _run(self) -> None:
        while (work := self._next()) is not None:
            try:
                if self._step(work):
                    self._put(work)  # at the end of the queue
            except StoreError as error:
                LOG.warning("rows that are not shown any more stay until the next start: %s", error)

    def _next(self) -> "int | SqlPartition | None":
        with self._condition:
            while not self._queue and not self._stopped:
                self._condition.wait()
            return None if self._stopped else self._queue.popleft()

    def _step(self, work: "int | SqlPartition") -> bool:
        """Delete some rows; return True if there may be more."""
        more: list[bool] = []

        def delete(connection: Connection) -> None:
            more[:] = [_delete_rows(connection, work)]

        self._group.run(delete)
        return more[0]


def _delete_rows(connection: Connection, work: "int | SqlPartition") -> bool:
    if isinstance(work, int):
        if columns.purge(connection, work, _BEYOND_ALL, RECORDS) or purge(connection, work, _BEYOND_ALL, ROWS):
            return True
        delete_log(connection, work)
        return False
    before = work.first_offset()  # called inside the transaction, since a truncation may have run before it
    if before is None:
        return False
    return columns.purge(connection, work.log, before, RECORDS) or purge(connection, work.log, before, ROWS)
