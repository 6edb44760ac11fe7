"""Decodes batches to the rows of their records, and of transaction markers."""

import logging
from collections.abc import Iterable
from dataclasses import field
from itertools import pairwise
from typing import Any, Final

from odradek.partitions.model import MAX_RECORDS_WITH_ROWS, StoredBatch
from odradek.storage_backends.headers import headers_as_json
from odradek.wire.records.batch import BatchHeader, parse_header
from odradek.wire.records.errors import InvalidRecordBatch
from odradek.wire.records.reader import ControlType, read_control_marker, read_records
from odradek.wire.values import mutable

LOG: Final = logging.getLogger("odradek.storage")
LONG_KEY_BYTES: Final = 1024
"""Longer keys are not in the index on keys: an index entry of PostgreSQL has at most 2,700 bytes."""


@mutable
class Rows:
    """Rows of `odradek_records` and `odradek_markers`, as the parameters of the statements that insert them.
    `size_bytes` is that of the decoded batches.
    """

    records: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    markers: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    size_bytes: int = 0

    def of(self, log: int) -> "Rows":
        """Set the log of all rows."""
        for row in (*self.records, *self.markers):
            row["log"] = log
        return self


def rows_of(batches: Iterable[StoredBatch]) -> Rows:
    """Return the rows of batches.

    A batch that cannot be decoded is left out, with a warning in the log; so is one with too many records, and one
    whose offsets do not rise: an offset has one row. Clients cannot write batches with too many (`validation`); such
    batches were written before the setting, or imported.
    """
    rows = Rows()
    for batch in batches:
        header = parse_header(batch.data)
        try:
            if header.is_control:
                _add_marker(rows, batch, header)
            else:
                rows.records += _records(batch, header)
        except InvalidRecordBatch as error:
            LOG.warning("offsets %d to %d have no rows for SQL: %s", batch.base_offset, batch.last_offset, error)
            continue
        rows.size_bytes += len(batch.data)
    return rows


def _records(batch: StoredBatch, header: BatchHeader) -> list[dict[str, Any]]:
    if header.record_count > MAX_RECORDS_WITH_ROWS:
        raise InvalidRecordBatch(f"{header.record_count} records are more than {MAX_RECORDS_WITH_ROWS}")
    producer_id = header.producer_id if header.is_transactional else None
    rows: list[dict[str, Any]] = [
        {
            "offset": offset,
            "time": timestamp_ms,
            "key": key,
            "value": value,
            "headers": headers_as_json(headers),
            "producer": producer_id,
            "long": key is not None and len(key) > LONG_KEY_BYTES,
        }
        for offset, timestamp_ms, key, value, headers in read_records(batch.data, header)
    ]
    if any(later["offset"] <= earlier["offset"] for earlier, later in pairwise(rows)):
        raise InvalidRecordBatch("the offsets of its records do not rise")
    return rows


def _add_marker(rows: Rows, batch: StoredBatch, header: BatchHeader) -> None:
    marker = read_control_marker(batch.data, header)
    if marker.type in {ControlType.COMMIT, ControlType.ABORT}:
        commits = marker.type is ControlType.COMMIT
        rows.markers.append({"producer": header.producer_id, "offset": marker.offset, "commit": commits})
