"""Adds the rows of records that are older than the setting, while the broker may be running."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, text

from odradek.partitions.model import AbortedTransaction, PartitionKey, StoredBatch
from odradek.storage_backends.beside import LogGoneError
from odradek.storage_backends.sql.columns import statements
from odradek.storage_backends.sql.columns.decoding import Rows, rows_of
from odradek.storage_backends.sql.columns.views import make_view
from odradek.storage_backends.sql.database import Database
from odradek.storage_backends.sql.schema import LIVE

CHUNK_BYTES: Final = 1024 * 1024
"""The size of batches per transaction, in bytes; the broker's commits wait for it."""
_CHUNK_BATCHES: Final = 500

_LOG: Final = text(
    f"SELECT id, columns_start, log_start_offset, log_end_offset FROM odradek_logs WHERE kind = {LIVE} "  # noqa: S608
    "AND topic = :topic AND topic_id = :topic_id AND partition = :partition"
)
_SIZES: Final = text(
    "SELECT base_offset, size_bytes FROM odradek_batches WHERE log_id = :log AND last_offset < :before "
    "AND last_offset >= :start ORDER BY last_offset DESC LIMIT :rows"
)
_BATCHES: Final = text(
    "SELECT base_offset, last_offset, max_timestamp_ms, records FROM odradek_batches WHERE log_id = :log "
    "AND base_offset >= :from AND last_offset < :before ORDER BY last_offset"
)


class SqlBackfill:
    """Adds the rows of logs, from their newest records to their oldest, one chunk per transaction. Commits, deletions
    and compaction by the broker may run concurrently: the broker and the backfill lock the log's row while they change
    data that rows depend on.
    """

    def __init__(self, url: str) -> None:
        self._database = Database(url)

    def begin(self, topic: str) -> None:
        """Create the topic's view, if it does not exist. Raises StoreError."""
        make_view(self._database, topic)

    def fill(self, key: PartitionKey, stable_offset: int, aborted: Sequence[AbortedTransaction]) -> int | None:
        """Add the rows of one chunk; return the number of records, None if nothing is left to do. All transactions
        below `stable_offset` have ended; `aborted` are the aborted ones. Raises LogGoneError, StoreError.
        """
        with self._database.writing(f"filling in the rows of {key}") as connection:
            statements.lock(connection, _log(connection, key)[0])
            # read again: a transaction for which the lock waited may have changed it
            log, start, log_start, log_end = _log(connection, key)
            before = log_end if start is None else start
            rows = _chunk(connection, log, log_start, before)
            if rows is None:
                statements.replace(connection, log, Rows(), min(log_start, before), before)
                return None
            first, decided = rows[0], _decided(rows[1], stable_offset, aborted)
            statements.replace(connection, log, decided, first, before)
            return len(decided.records)

    def close(self) -> None:
        """Close the connections."""
        self._database.close()


def _log(connection: Connection, key: PartitionKey) -> tuple[int, int | None, int, int]:
    """Return the log's id, where its rows start, and its own start and end. Raises LogGoneError."""
    columns = {"topic": key.topic, "topic_id": str(key.topic_id), "partition": key.index}
    found = connection.execute(_LOG, columns).one_or_none()
    if found is None:
        raise LogGoneError(f"{key} is no more: the topic was deleted")
    log, start, log_start, log_end = found
    return log, start, log_start, log_end


def _chunk(connection: Connection, log: int, log_start: int, before: int) -> tuple[int, Rows] | None:
    """Return the base offset of the last batches before an offset, and their rows; None if there is no batch."""
    extent = {"log": log, "start": log_start, "before": before, "rows": _CHUNK_BATCHES}
    first, size_bytes = -1, 0
    for base_offset, its_bytes in connection.execute(_SIZES, extent):
        if first >= 0 and size_bytes + its_bytes > CHUNK_BYTES:
            break
        first, size_bytes = base_offset, size_bytes + its_bytes
    if first < 0:
        return None
    found = connection.execute(_BATCHES, {"log": log, "from": first, "before": before})
    return first, rows_of([StoredBatch(base, last, time, bytes(data)) for base, last, time, data in found])


def _decided(rows: Rows, stable_offset: int, aborted: Sequence[AbortedTransaction]) -> Rows:
    """Return the rows without those of aborted transactions; those of committed ones are made independent of
    markers.
    """
    kept: list[dict[str, Any]] = []
    for row in rows.records:
        if row["producer"] is not None and row["offset"] < stable_offset:
            if any(_covers(each, row) for each in aborted):
                continue
            row["producer"] = None
        kept.append(row)
    return Rows(kept, rows.markers)


def _covers(transaction: AbortedTransaction, row: dict[str, Any]) -> bool:
    is_of_it = transaction.producer_id == row["producer"]
    return is_of_it and transaction.first_offset <= row["offset"] <= transaction.last_offset
