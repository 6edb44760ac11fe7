"""Decodes records to Arrow columns with `odradek.wire.records`, one by one: slower, and the reference for `vectors`."""

from collections.abc import Sequence
from typing import Any

from odradek.pipeline.segments.rows import COLUMN_TYPES, MAX_TIMESTAMP_MS, MICROSECONDS, Columns, RowFilter, Section, pa
from odradek.wire.records.errors import CorruptBatch
from odradek.wire.records.reader import read_section


def decode(sections: Sequence[Section], keep: RowFilter, *, with_headers: bool) -> Columns:
    """Decode the records of batches that pass `keep`. Raises CorruptBatch."""
    rows: list[tuple[Any, ...]] = []
    for header, data in sections:
        timestamp_type = int(header.timestamp_type)
        for record in read_section(bytes(data), header):
            if abs(record.timestamp_ms) > MAX_TIMESTAMP_MS:
                raise CorruptBatch(f"offset {record.offset}: Spark has no timestamp of {record.timestamp_ms} ms")
            if keep.passes(record.offset, record.timestamp_ms * MICROSECONDS):
                headers = [{"key": key, "value": value} for key, value in record.headers] or None
                row = (record.key, record.value, record.offset, record.timestamp_ms * MICROSECONDS, timestamp_type)
                rows.append((*row, headers))
    found = list(zip(*rows, strict=True)) if rows else [()] * 6
    return Columns(
        *[pa.array(column, kind) for column, kind in zip(found[: 5 + with_headers], COLUMN_TYPES, strict=False)]
    )
