"""The extents and counts of the batches that a mirror copies, without decoding records."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from odradek.pipeline.errors import PipelineError
from odradek.wire.records.batch import BatchHeader, iter_headers, peek_header
from odradek.wire.records.builder import SimpleRecord, build_batch
from odradek.wire.records.errors import InvalidRecordBatch
from odradek.wire.records.rebuild import without_records

MARKERS: Final = "transaction marker"
COMPACTED: Final = "compacted at the source"
RETENTION: Final = "deleted at the source"


@dataclass(slots=True)
class Chunk:
    """Whole batches of one partition, from `first_offset` up to, but excluding, `end_offset`. `skipped` counts the
    offsets of the range without a record, by reason; `records` the others.
    """

    first_offset: int
    end_offset: int
    data: memoryview
    records: int = 0
    skipped: Counter[str] = field(default_factory=Counter[str])


def chunk_of(records: memoryview, next_offset: int) -> Chunk:
    """Return the whole batches of a fetch from `next_offset` on, without earlier ones and an incomplete last one.
    Raises PipelineError if `next_offset` is inside a batch, which cannot be divided.
    """
    chunk = Chunk(next_offset, next_offset, records[:0])
    begin = end = 0
    try:
        for header in iter_headers(records, allow_partial_tail=True):
            if header.next_offset <= next_offset:
                begin = end = header.end_position
                continue
            if header.base_offset < next_offset:
                raise PipelineError(f"the source's batch at {header.base_offset} goes beyond offset {next_offset}")
            _count(chunk, header)
            end = header.end_position
    except InvalidRecordBatch as error:
        raise PipelineError(
            f"the source's batches from offset {chunk.end_offset} on cannot be copied: {error}"
        ) from error
    chunk.data = records[begin:end]
    return chunk


def _count(chunk: Chunk, header: BatchHeader) -> None:
    absent = header.next_offset - chunk.end_offset - header.record_count
    if header.is_control:
        chunk.skipped[MARKERS] += header.record_count
    else:
        chunk.records += header.record_count
    if absent:
        chunk.skipped[COMPACTED] += absent
    chunk.end_offset = header.next_offset


def rest_of(chunk: Chunk, offset: int) -> Chunk | None:
    """Return the rest of a chunk of which the target has everything below `offset`; None if it has all. Raises
    PipelineError if the target's log ends inside one of the batches, or after them.
    """
    if offset == chunk.end_offset:
        return None
    for header in iter_headers(chunk.data):
        if header.base_offset >= offset:
            break
        if header.next_offset > offset:
            raise _diverged(offset)
    else:
        raise _diverged(offset)
    data = chunk.data[header.position :]
    return Chunk(offset, chunk.end_offset, data)


def _diverged(offset: int) -> PipelineError:
    return PipelineError(f"the target's log ends at offset {offset}: something else than this mirror writes to it")


def filler(last_offset: int) -> bytes:
    """Return a batch without records that ends at `last_offset`, as after compaction: it moves a log's end."""
    full = build_batch([SimpleRecord(None, None, 0)], base_offset=last_offset)
    return without_records(peek_header(full))


def batch_with(records: memoryview, offset: int) -> bytes | None:
    """Return the batch with `offset`, with leader epoch 0, so that batches of two clusters can be compared; None if
    there is none.
    """
    for header in iter_headers(records, allow_partial_tail=True):
        if header.base_offset <= offset <= header.last_offset:
            data = bytes(records[header.position : header.end_position])
            return data[:12] + bytes(4) + data[16:]
    return None


def extent(batch: bytes) -> tuple[int, ...]:
    """Return the part of a batch's header that compaction keeps: its last offset, and its producer with the last
    sequence.
    """
    header = peek_header(batch)
    return header.last_offset, header.producer_id, header.producer_epoch, header.last_sequence


def total(chunks: Iterable[Chunk]) -> tuple[int, int]:
    """Return the numbers of records and bytes."""
    listed = list(chunks)
    return sum(one.records for one in listed), sum(len(one.data) for one in listed)
