"""Queries: a log's state when it is opened, its batches, and offsets by time."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, text

from odradek.partitions.model import AbortedTransaction
from odradek.storage_backends.interface import Rest
from odradek.storage_backends.sql.state import LogState, SegmentState

MAX_ROWS: Final = 1000
"""The maximal number of batches that one read considers."""

_LOG: Final = text("SELECT log_start_offset, log_end_offset, clean_offset FROM odradek_logs WHERE id = :log")
_SEGMENTS: Final = text(
    "SELECT base_offset, size_bytes, first_timestamp_ms, max_timestamp_ms FROM odradek_segments WHERE log_id = :log "
    "ORDER BY base_offset"
)
_EPOCHS: Final = text("SELECT leader_epoch, start_offset FROM odradek_epochs WHERE log_id = :log")
_PRODUCERS: Final = text("SELECT producer_id, end_offset, state FROM odradek_producers WHERE log_id = :log")
_ABORTED: Final = text(
    "SELECT producer_id, first_offset, last_offset, last_stable_offset FROM odradek_aborted WHERE log_id = :log "
    "ORDER BY id"
)
_SIZES: Final = text(
    "SELECT last_offset, size_bytes FROM odradek_batches WHERE log_id = :log AND last_offset >= :start "
    "AND last_offset < :end ORDER BY last_offset LIMIT :rows"
)
_RECORDS: Final = text(
    "SELECT records FROM odradek_batches WHERE log_id = :log AND last_offset >= :start AND last_offset <= :last "
    "ORDER BY last_offset"
)
_SIZES_SINCE: Final = text(
    "SELECT last_offset, size_bytes FROM odradek_batches WHERE log_id = :log AND last_offset >= :start "
    "AND last_offset < :end AND max_timestamp_ms >= :since ORDER BY last_offset LIMIT :rows"
)
_RECORDS_SINCE: Final = text(
    "SELECT base_offset, last_offset, records FROM odradek_batches WHERE log_id = :log AND last_offset >= :start "
    "AND last_offset <= :last AND max_timestamp_ms >= :since ORDER BY last_offset"
)
_FIRST_AT: Final = text(
    "SELECT base_offset FROM odradek_batches WHERE log_id = :log AND last_offset >= :start AND last_offset < :end "
    "AND max_timestamp_ms >= :time ORDER BY last_offset LIMIT 1"
)
_MAX_TIME: Final = text(
    "SELECT MAX(max_timestamp_ms) FROM odradek_batches WHERE log_id = :log AND last_offset >= :start "
    "AND last_offset < :end"
)
_FIRST_ENDING: Final = text(
    "SELECT base_offset FROM odradek_batches WHERE log_id = :log AND last_offset >= :start ORDER BY last_offset LIMIT 1"
)
_BELOW: Final = text("SELECT 1 FROM odradek_batches WHERE log_id = :log AND last_offset < :before LIMIT 1")
_SUMS: Final = text(
    "SELECT COALESCE(SUM(size_bytes), 0), COALESCE(MAX(max_timestamp_ms), -1) FROM odradek_batches "
    "WHERE log_id = :log AND last_offset >= :start AND last_offset < :end"
)
_FIRST_TIME: Final = text(
    "SELECT max_timestamp_ms FROM odradek_batches WHERE log_id = :log AND last_offset >= :start AND last_offset < :end "
    "ORDER BY last_offset LIMIT 1"
)


def load(connection: Connection, log: int) -> LogState:
    """Return the state of a log, without reading batches."""
    of_log = {"log": log}
    start, end, clean = connection.execute(_LOG, of_log).one()
    segments = [SegmentState(*row) for row in _rows(connection, _SEGMENTS, of_log)]
    return LogState(
        segments or [SegmentState(0)],
        start,
        end,
        clean,
        {row[0]: row[1] for row in _rows(connection, _EPOCHS, of_log)},
        {producer_id: (at, bytes(state)) for producer_id, at, state in _rows(connection, _PRODUCERS, of_log)},
        [AbortedTransaction(*row) for row in _rows(connection, _ABORTED, of_log)],
    )


def read(connection: Connection, log: int, start: int, end: int, max_bytes: int) -> tuple[list[memoryview], Rest]:
    """Return the batches that `PartitionStore.read` lends, and what it leaves."""
    sizes = _rows(connection, _SIZES, {"log": log, "start": start, "end": end, "rows": MAX_ROWS})
    last = _last_within(sizes, max_bytes)
    if last < 0:
        return [], Rest.NOTHING
    rows = _rows(connection, _RECORDS, {"log": log, "start": start, "last": last})
    is_cut = last < sizes[-1][0] or len(sizes) == MAX_ROWS
    return [memoryview(bytes(records)) for (records,) in rows], Rest.CUT if is_cut else Rest.NOTHING


def read_since(
    connection: Connection, log: int, start: int, end: int, max_bytes: int, since_ms: int | None
) -> list[tuple[int, int, bytes]]:
    """Return batches of offsets `start` to `end`, each with its base and last offset, without those older than
    `since_ms`.
    """
    since = -(2**63) if since_ms is None else since_ms
    bounds = {"log": log, "start": start, "since": since}
    last = _last_within(_rows(connection, _SIZES_SINCE, {**bounds, "end": end, "rows": MAX_ROWS}), max_bytes)
    if last < 0:
        return []
    rows = _rows(connection, _RECORDS_SINCE, {**bounds, "last": last})
    return [(base_offset, last_offset, bytes(records)) for base_offset, last_offset, records in rows]


def _last_within(sizes: Sequence[tuple[int, int]], max_bytes: int) -> int:
    """Return the last offset of the batches that fit, or of the first one; -1 if there are none."""
    last = -1
    for last_offset, size_bytes in sizes:
        if last >= 0 and size_bytes > max_bytes:
            break
        last = last_offset
        max_bytes -= size_bytes
    return last


def find_at(connection: Connection, log: int, start: int, end: int, timestamp_ms: int) -> int | None:
    """Return the base offset of the first batch from `start` to `end` with a max timestamp >= `timestamp_ms`, or
    None.
    """
    found = connection.execute(_FIRST_AT, {"log": log, "start": start, "end": end, "time": timestamp_ms})
    return found.scalar_one_or_none()


def max_time(connection: Connection, log: int, start: int, end: int) -> int | None:
    """Return the largest timestamp of the batches from `start` to `end`; None if there are none."""
    return connection.execute(_MAX_TIME, {"log": log, "start": start, "end": end}).scalar_one()


def first_ending_at(connection: Connection, log: int, offset: int) -> int | None:
    """Return the base offset of the first batch that ends at or above `offset`, or None."""
    return connection.execute(_FIRST_ENDING, {"log": log, "start": offset}).scalar_one_or_none()


def has_rows_below(connection: Connection, log: int, offset: int) -> bool:
    """Return True if there are batches that end before `offset`."""
    return connection.execute(_BELOW, {"log": log, "before": offset}).first() is not None


def summed(connection: Connection, log: int, base_offset: int, end_offset: int) -> SegmentState:
    """Return the state of a segment of the batches from `base_offset` to `end_offset`."""
    extent = {"log": log, "start": base_offset, "end": end_offset}
    size_bytes, max_timestamp_ms = connection.execute(_SUMS, extent).one()
    first = connection.execute(_FIRST_TIME, extent).scalar_one_or_none()
    return SegmentState(base_offset, int(size_bytes), -1 if first is None else first, max_timestamp_ms)


def _rows(connection: Connection, statement: Any, values: dict[str, int]) -> Sequence[Any]:  # noqa: ANN401 - rows
    return connection.execute(statement, values).all()
