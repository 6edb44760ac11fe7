"""The effects of commits, truncation, compaction and deletion on the rows of records."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, text

from odradek.partitions.model import AbortedTransaction
from odradek.storage_backends.sql.columns.decoding import Rows

_INSERT_RECORD: Final = text(
    "INSERT INTO odradek_records (log_id, record_offset, timestamp_ms, record_key, record_value, headers, producer_id, "
    "has_long_key) VALUES (:log, :offset, :time, :key, :value, :headers, :producer, :long)"
)
_INSERT_MARKER: Final = text(
    "INSERT INTO odradek_markers (log_id, producer_id, marker_offset, is_commit) "
    "VALUES (:log, :producer, :offset, :commit) ON CONFLICT (log_id, producer_id, marker_offset) DO NOTHING"
)
_START: Final = text("UPDATE odradek_logs SET columns_start = COALESCE(columns_start, :start) WHERE id = :log")
_SET_START: Final = text("UPDATE odradek_logs SET columns_start = :start WHERE id = :log")
_LOWER_START: Final = text("UPDATE odradek_logs SET columns_start = :end WHERE id = :log AND columns_start > :end")
_RAISE_START: Final = text("UPDATE odradek_logs SET columns_start = :end WHERE id = :log AND columns_start < :end")
_GET_START: Final = text("SELECT columns_start FROM odradek_logs WHERE id = :log")
_LOCK: Final = text("UPDATE odradek_logs SET kind = kind WHERE id = :log")
_DELETE_RECORDS: Final = text(
    "DELETE FROM odradek_records WHERE log_id = :log AND record_offset >= :start AND record_offset < :end"
)
_DELETE_MARKERS: Final = text("DELETE FROM odradek_markers WHERE log_id = :log AND marker_offset >= :start")
_DELETE_OLD_MARKERS: Final = text("DELETE FROM odradek_markers WHERE log_id = :log AND marker_offset < :end")
_DELETE_SPENT_MARKERS: Final = text(
    "DELETE FROM odradek_markers WHERE log_id = :log AND marker_offset < :end AND NOT EXISTS (SELECT 1 "
    "FROM odradek_records r WHERE r.log_id = odradek_markers.log_id AND r.producer_id = odradek_markers.producer_id "
    "AND r.record_offset < odradek_markers.marker_offset)"
)
_MOVE_RECORDS: Final = text("UPDATE odradek_records SET log_id = :log, producer_id = NULL WHERE log_id = :draft")
_DELETE_ABORTED: Final = text(
    "DELETE FROM odradek_records WHERE log_id = :draft AND producer_id = :producer AND record_offset >= :first "
    "AND record_offset <= :last"
)
_PURGE: Final = text(
    "DELETE FROM odradek_records WHERE log_id = :log AND record_offset < :before AND record_offset <= "
    "COALESCE((SELECT MAX(record_offset) FROM (SELECT record_offset FROM odradek_records WHERE log_id = :log "
    "ORDER BY record_offset LIMIT :rows) AS oldest), -1)"
)
_ANY: Final = text("SELECT 1 FROM odradek_records WHERE log_id = :log AND record_offset < :before LIMIT 1")
_BEYOND_ALL: Final = 2**63 - 1


def begin(connection: Connection, log: int, start: int) -> None:
    """Record that batches have rows from `start` on, unless they already have rows from an earlier offset."""
    connection.execute(_START, {"log": log, "start": start})


def end(connection: Connection, log: int) -> None:
    """Record that batches have no rows any more."""
    connection.execute(_SET_START, {"log": log, "start": None})


def insert(connection: Connection, log: int, rows: Rows) -> None:
    """Add the rows of batches."""
    rows.of(log)
    if rows.records:
        connection.execute(_INSERT_RECORD, rows.records)
    if rows.markers:
        connection.execute(_INSERT_MARKER, rows.markers)


def replace(connection: Connection, log: int, rows: Rows, start: int, before: int) -> None:
    """Replace the rows from `start` to `before`, and record that batches have rows from `start` on."""
    connection.execute(_DELETE_RECORDS, {"log": log, "start": start, "end": before})
    insert(connection, log, rows)
    connection.execute(_SET_START, {"log": log, "start": start})


def truncate(connection: Connection, log: int, offset: int) -> None:
    """Drop the rows from `offset` on."""
    connection.execute(_DELETE_RECORDS, {"log": log, "start": offset, "end": _BEYOND_ALL})
    connection.execute(_DELETE_MARKERS, {"log": log, "start": offset})
    connection.execute(_LOWER_START, {"log": log, "end": offset})


def lock(connection: Connection, log: int) -> None:
    """Lock the log's row, and so the data that its records' rows depend on, until the transaction ends."""
    connection.execute(_LOCK, {"log": log})


def put_in_place(
    connection: Connection, log: int, draft: int, start: int, before: int, aborted: Sequence[AbortedTransaction] | None
) -> None:
    """Apply a compaction of the batches from `start` to `before` to their rows. All transactions there have ended;
    `aborted` are the aborted ones. The draft's records of other transactions are committed and no longer need their
    marker, which compaction may remove. With `aborted` None the draft has no rows.
    """
    run = {"log": log, "start": start, "end": before}
    connection.execute(_DELETE_RECORDS, run)
    if aborted is not None:
        for each in aborted:
            extent = {"producer": each.producer_id, "first": each.first_offset, "last": each.last_offset}
            connection.execute(_DELETE_ABORTED, {"draft": draft, **extent})
        connection.execute(_MOVE_RECORDS, {"log": log, "draft": draft})
    else:
        connection.execute(_RAISE_START, run)
    connection.execute(_DELETE_SPENT_MARKERS, run)


def purge(connection: Connection, log: int, before: int, rows: int) -> bool:
    """Delete up to `rows` unused rows: those below `before` or `columns_start`, and all if `columns_start` is not set.
    Returns True if there was one; if there was none, deletes the unused markers instead.
    """
    start = connection.execute(_GET_START, {"log": log}).scalar_one_or_none()
    bound = _BEYOND_ALL if start is None else max(before, start)
    if connection.execute(_PURGE, {"log": log, "before": bound, "rows": rows}).rowcount > 0:
        return True
    connection.execute(_DELETE_OLD_MARKERS, {"log": log, "end": bound})
    return False


def has_columns(connection: Connection, log: int) -> bool:
    """Return True if batches have rows from some offset on."""
    return connection.execute(_GET_START, {"log": log}).scalar_one_or_none() is not None


def has_purgeable(connection: Connection, log: int, before: int) -> bool:
    """Return True if there are unused rows."""
    start = connection.execute(_GET_START, {"log": log}).scalar_one_or_none()
    bound = _BEYOND_ALL if start is None else max(before, start)
    return connection.execute(_ANY, {"log": log, "before": bound}).first() is not None
