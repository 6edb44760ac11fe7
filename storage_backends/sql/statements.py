"""SQL statements, the same for SQLite and PostgreSQL, and the units of transactions made of them."""

from typing import Final

from sqlalchemy import Connection, text

from odradek.partitions.model import AbortedTransaction, StoredBatch
from odradek.storage_backends.sql.columns import statements as columns
from odradek.storage_backends.sql.driver import Statement, run
from odradek.storage_backends.sql.outbox import queries as outbox
from odradek.storage_backends.sql.state import Change, LogState, SegmentState

_OF_STATE: Final = ("odradek_segments", "odradek_epochs", "odradek_producers", "odradek_aborted")
_DELETE_STATE: Final = tuple(text(f"DELETE FROM {table} WHERE log_id = :log") for table in _OF_STATE)  # noqa: S608
_DELETE_BATCHES: Final = text("DELETE FROM odradek_batches WHERE log_id = :log")
_INSERT_BATCH: Final = Statement(
    "INSERT INTO odradek_batches (log_id, last_offset, base_offset, max_timestamp_ms, size_bytes, records) "
    "VALUES (:log, :last, :base, :time, :size, :records)"
)
_UPSERT_SEGMENT: Final = Statement(
    "INSERT INTO odradek_segments (log_id, base_offset, size_bytes, first_timestamp_ms, max_timestamp_ms) "
    "VALUES (:log, :base, :size, :first, :max) ON CONFLICT (log_id, base_offset) DO UPDATE SET "
    "size_bytes = excluded.size_bytes, first_timestamp_ms = excluded.first_timestamp_ms, "
    "max_timestamp_ms = excluded.max_timestamp_ms"
)
_UPSERT_EPOCH: Final = Statement(
    "INSERT INTO odradek_epochs (log_id, leader_epoch, start_offset) VALUES (:log, :epoch, :start) "
    "ON CONFLICT (log_id, leader_epoch) DO UPDATE SET start_offset = excluded.start_offset"
)
_UPSERT_PRODUCER: Final = Statement(
    "INSERT INTO odradek_producers (log_id, producer_id, end_offset, state) VALUES (:log, :id, :end, :state) "
    "ON CONFLICT (log_id, producer_id) DO UPDATE SET end_offset = excluded.end_offset, state = excluded.state"
)
_DELETE_PRODUCER: Final = Statement("DELETE FROM odradek_producers WHERE log_id = :log AND producer_id = :id")
_INSERT_ABORTED: Final = Statement(
    "INSERT INTO odradek_aborted (log_id, producer_id, first_offset, last_offset, last_stable_offset) "
    "VALUES (:log, :id, :first, :last, :stable)"
)
_DELETE_DEAD_SEGMENTS: Final = text("DELETE FROM odradek_segments WHERE log_id = :log AND base_offset < :first")
_DELETE_DEAD_ABORTED: Final = text("DELETE FROM odradek_aborted WHERE log_id = :log AND last_offset < :first")
_UPDATE_LOG: Final = Statement(
    "UPDATE odradek_logs SET log_start_offset = :start, log_end_offset = :end, clean_offset = :clean WHERE id = :log"
)
_CUT_BATCHES: Final = text("DELETE FROM odradek_batches WHERE log_id = :log AND last_offset >= :end")
_PURGE: Final = text(
    "DELETE FROM odradek_batches WHERE log_id = :log AND last_offset < :before AND last_offset <= "
    "COALESCE((SELECT MAX(last_offset) FROM (SELECT last_offset FROM odradek_batches WHERE log_id = :log "
    "ORDER BY last_offset LIMIT :rows) AS oldest), -1)"
)
_MOVE_BATCHES: Final = text("UPDATE odradek_batches SET log_id = :log WHERE log_id = :draft")
_DELETE_RUN: Final = text(
    "DELETE FROM odradek_batches WHERE log_id = :log AND last_offset >= :base AND last_offset < :end"
)
_DELETE_RUN_SEGMENTS: Final = text(
    "DELETE FROM odradek_segments WHERE log_id = :log AND base_offset >= :base AND base_offset < :end"
)
_DELETE_RUN_ABORTED: Final = text(
    "DELETE FROM odradek_aborted WHERE log_id = :log AND last_offset >= :base AND last_offset < :end"
)
_DELETE_LOG: Final = text("DELETE FROM odradek_logs WHERE id = :log")


def write_change(connection: Connection, log: int, change: Change) -> None:
    """Write a commit."""
    if change.restarts:
        connection.execute(_DELETE_BATCHES, {"log": log})
        _delete_state(connection, log)
    elif change.dropped_segments:
        first = {"log": log, "first": change.segments[0].base_offset}
        connection.execute(_DELETE_DEAD_SEGMENTS, first)
        connection.execute(_DELETE_DEAD_ABORTED, first)
    insert_batches(connection, log, change.batches)
    _upsert_segments(connection, log, list(change.changed_segments.values()))
    _upsert_epochs(connection, log, change.epochs)
    _write_producers(connection, log, change.producers)
    _insert_aborted(connection, log, change.aborted)
    _update_log(connection, log, change.log_start_offset, change.log_end_offset, change.clean_offset)
    outbox.take(connection, change.taken)


def write_truncation(connection: Connection, log: int, keep_below: int, after: LogState) -> None:
    """Write the state after a truncation; only batches that end below `keep_below` are kept."""
    columns.lock(connection, log)
    connection.execute(_CUT_BATCHES, {"log": log, "end": keep_below})
    columns.truncate(connection, log, keep_below)
    _delete_state(connection, log)
    _upsert_segments(connection, log, after.segments)
    _upsert_epochs(connection, log, after.epochs)
    _write_producers(connection, log, dict(after.producers))
    _insert_aborted(connection, log, after.aborted)
    _update_log(connection, log, after.log_start_offset, after.log_end_offset, after.clean_offset)


def write_replacement(
    connection: Connection,
    log: int,
    draft: int,
    segment: SegmentState,
    end_offset: int,
    aborted: "tuple[AbortedTransaction, ...]",
) -> None:
    """Replace a run of segments by a draft's batches."""
    run = {"log": log, "base": segment.base_offset, "end": end_offset}
    for statement in (_DELETE_RUN, _DELETE_RUN_SEGMENTS, _DELETE_RUN_ABORTED):
        connection.execute(statement, run)
    connection.execute(_MOVE_BATCHES, {"log": log, "draft": draft})
    connection.execute(_DELETE_LOG, {"log": draft})
    _upsert_segments(connection, log, [segment])
    _insert_aborted(connection, log, list(aborted))


def insert_batches(connection: Connection, log: int, batches: list[StoredBatch]) -> None:
    """Add batches."""
    if batches:
        run(
            connection,
            _INSERT_BATCH,
            [
                {
                    "log": log,
                    "last": each.last_offset,
                    "base": each.base_offset,
                    "time": each.max_timestamp_ms,
                    "size": len(each.data),
                    "records": each.data,
                }
                for each in batches
            ],
        )


def purge(connection: Connection, log: int, before: int, rows: int) -> bool:
    """Delete up to `rows` of the batches that end before an offset, the oldest first; return True if there was one."""
    return connection.execute(_PURGE, {"log": log, "before": before, "rows": rows}).rowcount > 0


def delete_log(connection: Connection, log: int) -> None:
    """Delete a log that has no batches any more."""
    _delete_state(connection, log)
    connection.execute(_DELETE_LOG, {"log": log})


def _delete_state(connection: Connection, log: int) -> None:
    for statement in _DELETE_STATE:
        connection.execute(statement, {"log": log})


def _upsert_segments(connection: Connection, log: int, segments: list[SegmentState]) -> None:
    if segments:
        rows = [
            {
                "log": log,
                "base": each.base_offset,
                "size": each.size_bytes,
                "first": each.first_timestamp_ms,
                "max": each.max_timestamp_ms,
            }
            for each in segments
        ]
        run(connection, _UPSERT_SEGMENT, rows)


def _upsert_epochs(connection: Connection, log: int, epochs: dict[int, int]) -> None:
    if epochs:
        run(connection, _UPSERT_EPOCH, [{"log": log, "epoch": epoch, "start": at} for epoch, at in epochs.items()])


def _write_producers(connection: Connection, log: int, rows: dict[int, tuple[int, bytes] | None]) -> None:
    kept = [{"log": log, "id": each, "end": row[0], "state": row[1]} for each, row in rows.items() if row is not None]
    gone = [{"log": log, "id": each} for each, row in rows.items() if row is None]
    if kept:
        run(connection, _UPSERT_PRODUCER, kept)
    if gone:
        run(connection, _DELETE_PRODUCER, gone)


def _insert_aborted(connection: Connection, log: int, aborted: list[AbortedTransaction]) -> None:
    if aborted:
        rows = [
            {
                "log": log,
                "id": each.producer_id,
                "first": each.first_offset,
                "last": each.last_offset,
                "stable": each.last_stable_offset,
            }
            for each in aborted
        ]
        run(connection, _INSERT_ABORTED, rows)


def _update_log(connection: Connection, log: int, start: int, end: int, clean: int) -> None:
    run(connection, _UPDATE_LOG, [{"log": log, "start": start, "end": end, "clean": clean}])
