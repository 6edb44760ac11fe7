"""The records of a range of one partition's offsets, as Arrow record batches.

A range is read from the log's current segments, not from those at the time of the plan. If a segment disappears during
the read, the rest is read from its replacement (compaction), or its loss is reported (retention).
"""

import logging
import sys
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Final

from odradek.gateway.beside.committed import Aborted
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.segments.filters import NO_CONDITIONS, Conditions
from odradek.pipeline.segments.rows import HEADERS_TYPE, TIMESTAMP_TYPE, Array, Columns, RowFilter, Section, pa
from odradek.pipeline.segments.store import LogGoneError, LogView, SegmentGoneError
from odradek.wire.records.batch import BatchHeader, check_crc, iter_headers
from odradek.wire.records.errors import InvalidRecordBatch
from odradek.wire.records.reader import records_section

BATCH_BYTES: Final = 1024 * 1024
"""The maximal decompressed size of the records in an Arrow record batch; a larger Kafka batch is one by itself."""
BATCH_RECORDS: Final = 50_000

LOOKS: Final = 5
"""The maximal number of retries to open a segment that is missing although the log still lists it."""

_logger = logging.getLogger(__name__)


class DataLossError(PipelineError):
    """Offsets of the range have been deleted. With `failOnDataLoss` false they are skipped, with a warning."""


class DamagedBatchError(PipelineError):
    """A batch is damaged. The message names the partition and the offset."""


@dataclass(frozen=True)
class Range:
    """The range of one task: `start` ≤ offset < `end` of a partition, in the directory of its log."""

    topic: str
    partition: int
    directory: str
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} from offset {self.start} to {self.end}"


@dataclass(frozen=True)
class Reading:
    """The parameters of reading, common to all tasks of a query. `fails_on_loss` is `failOnDataLoss`."""

    committed: bool = True
    with_headers: bool = False
    fails_on_loss: bool = True
    conditions: Conditions = NO_CONDITIONS

    @property
    def schema(self) -> Array:
        """The Arrow schema of the rows."""
        fields = [
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", TIMESTAMP_TYPE),
            ("timestampType", pa.int32()),
        ]
        return pa.schema([*fields, ("headers", HEADERS_TYPE)] if self.with_headers else fields)


def decoder() -> ModuleType:
    """Return the decoding module: `vectors` if NumPy is installed, else `plain`."""
    try:
        from odradek.pipeline.segments import vectors  # NumPy may not be installed
    except ImportError:
        from odradek.pipeline.segments import plain

        return plain
    return vectors


def read_range(wanted: Range, how: Reading) -> Iterator[Array]:
    """Read a range as Arrow record batches, in the order of offsets.

    Raises DataLossError, DamagedBatchError, StoreError.
    """
    decode = decoder().decode
    keep = RowFilter(wanted.start, wanted.end, how.conditions.of_rows)
    for sections in _blocks(_sections(wanted, how)):
        try:
            columns = decode(sections, keep, with_headers=how.with_headers)
        except InvalidRecordBatch as error:
            first, last = sections[0].header.base_offset, sections[-1].header.last_offset
            raise DamagedBatchError(f"{wanted}: records between offsets {first} and {last}: {error}") from error
        if len(columns.key):
            yield _record_batch(wanted, columns, how)


def _record_batch(wanted: Range, columns: Columns, how: Reading) -> Array:
    count = len(columns.key)
    topic = _repeated(pa.string(), wanted.topic.encode(), count)
    partition = _repeated(pa.int32(), wanted.partition.to_bytes(4, sys.byteorder), count)
    key, value, *rest, headers = columns
    arrays = [key, value, topic, partition, *rest, *([headers] if how.with_headers else [])]
    return pa.record_batch(arrays, schema=how.schema)


@lru_cache(maxsize=4)
def _repeated(kind: Array, value: bytes, count: int) -> Array:
    """Return a column with the same value in all rows, without `pyarrow.repeat`, which imports pandas.

    Cached, since consecutive batches often have the same number of records.
    """
    buffers = [None, pa.py_buffer(value * count)]
    if kind == pa.string():
        ends = array("i", range(0, len(value) * count + 1, len(value)))
        buffers.insert(1, pa.py_buffer(ends))
    return pa.Array.from_buffers(kind, count, buffers)


def _blocks(sections: Iterator[Section]) -> Iterator[Sequence[Section]]:
    """Group batches for decoding together."""
    block: list[Section] = []
    size_bytes = records = 0
    for section in sections:
        if block and (size_bytes + len(section.data) > BATCH_BYTES or records >= BATCH_RECORDS):
            yield block
            block, size_bytes, records = [], 0, 0
        block.append(section)
        size_bytes += len(section.data)
        records += section.header.record_count
    if block:
        yield block


def _sections(wanted: Range, how: Reading) -> Iterator[Section]:
    """Yield the batches of the range with visible records, checked and decompressed."""
    since_ms = how.conditions.since_ms
    for value, aborted in _values(wanted, how, since_ms):
        try:
            for header in iter_headers(value):
                if header.base_offset >= wanted.end:
                    break
                if _shows(header, wanted, aborted, since_ms):
                    check_crc(value, header)
                    yield Section(header, records_section(value, header))
        except InvalidRecordBatch as error:
            raise DamagedBatchError(f"{wanted}: a batch in {wanted.directory} is damaged: {error}") from error


def _shows(header: BatchHeader, wanted: Range, aborted: Aborted, since_ms: int | None) -> bool:
    if header.last_offset < wanted.start or header.is_control or not header.record_count:
        return False
    if since_ms is not None and header.max_timestamp < since_ms:
        return False
    return not (header.is_transactional and aborted.covers(header))


def _values(wanted: Range, how: Reading, since_ms: int | None) -> Iterator[tuple[bytes, Aborted]]:
    position = wanted.start
    missed: list[object] = []
    while position < wanted.end:
        view = _view(wanted, position, how)
        if view is None:
            return
        with view:
            position = _begin(wanted, position, view, how)
            # The list is older than the segments opened below: it may have transactions that compaction has removed
            # since, but none is missing.
            aborted = Aborted(view.aborted if how.committed else ())
            try:
                for last_offset, value in view.values(position, wanted.end, since_ms):
                    yield value, aborted
                    position = last_offset + 1
            except SegmentGoneError as gone:
                missed.append((position, view.segments))
                if missed.count(missed[-1]) > LOOKS:
                    raise  # not replaced by another segment: the file is missing
                _logger.info("%s: %s; going on at offset %d", wanted, gone, position)
            else:
                return


def _view(wanted: Range, position: int, how: Reading) -> LogView | None:
    try:
        return LogView.open(Path(wanted.directory))
    except LogGoneError as gone:
        lose(f"{wanted.topic}-{wanted.partition}: offsets {position} to {wanted.end} are gone: {gone}", how)
        return None


def _begin(wanted: Range, position: int, view: LogView, how: Reading) -> int:
    """Return the offset to read from, after reporting deleted offsets."""
    name = f"{wanted.topic}-{wanted.partition}"
    if view.log_start_offset > position:
        lost = min(view.log_start_offset, wanted.end)
        lose(f"{name}: offsets {position} to {lost} were deleted: the log now starts at {view.log_start_offset}", how)
        position = view.log_start_offset
    if view.log_end_offset < wanted.end:
        begin = max(position, view.log_end_offset)
        lose(f"{name}: offsets {begin} to {wanted.end} are not there: the log ends at {view.log_end_offset}", how)
    return position


def lose(what: str, how: Reading) -> None:
    """Raise DataLossError for lost offsets; only log a warning if `failOnDataLoss` is false."""
    if how.fails_on_loss:
        raise DataLossError(f"{what}; to skip what is lost set the option failOnDataLoss to false")
    _logger.warning("data loss: %s", what)
