"""Writes records at their original offsets: by ImportBatches, or by producing them in order and filling gaps. Both only
depend on the partition's end, and so continue after a crash at any point.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from odradek.pipeline.errors import PipelineError
from odradek.pipeline.restoring.gaps import GapFiller, fill_the_beginning
from odradek.pipeline.restoring.writing import Written
from odradek.pipeline.topic_partition import TopicPartition
from odradek.pipeline.wire_client import RETRIABLE, BrokerError, WireClient
from odradek.pipeline.wire_socket import ConnectionLostError, error_name
from odradek.pipeline.writing.ahead import Ahead
from odradek.pipeline.writing.columns import Columns, divided, encode_columns
from odradek.pipeline.writing.encoding import Producer
from odradek.pipeline.writing.producing import PartitionProducer, TooLargeError, end_offset
from odradek.wire.errors import ErrorCode
from odradek.wire.schema.types import Buffer

IMPORTED_BATCH_BYTES: Final = 256 * 1024
IMPORT_BYTES: Final = 4 * 1024 * 1024
"""A request is sent when the records of its batches reach this size, so it exceeds it by less than one batch. A task
waits for one commit per request.
"""


class Batch(NamedTuple):
    """The rows of one batch, and its bytes in two parts."""

    rows: Columns
    header: bytes
    records: bytes | memoryview


class Gaps(NamedTuple):
    """The handling of a partition's gaps: with `gapless` there are none. With `move_start` the log start is set to the
    first row; else a gap before it is filled like the others.
    """

    move_start: bool
    gapless: bool


def import_rows(
    client: WireClient, place: TopicPartition, rows: Iterable[Columns], codec: int, written: Written
) -> None:
    """Write the rows to an Odradek, and count them in `written`. The next request is encoded while one is in flight."""
    importer = _Importer(client, place, codec, written)
    with Ahead(importer.write) as ahead:
        for some in rows:
            for request in _requests(_encoded(some, codec)):
                ahead.put(request)


def _encoded(rows: Columns, codec: int) -> list[Batch]:
    begins = divided(rows, IMPORTED_BATCH_BYTES)
    batches = encode_columns(rows, begins, codec)
    return [Batch(rows.slice(*bounds), *parts) for bounds, parts in zip(pairwise(begins), batches, strict=True)]


def _requests(batches: Iterable[Batch]) -> Iterator[list[Batch]]:
    pending: list[Batch] = []
    size = 0
    for batch in batches:
        pending.append(batch)
        size += len(batch.records)
        if size >= IMPORT_BYTES:
            yield pending
            pending, size = [], 0
    if pending:
        yield pending


class _Importer:
    def __init__(self, client: WireClient, place: TopicPartition, codec: int, written: Written) -> None:
        self._written = written
        self._client, self._place, self._codec = client, place, codec

    def write(self, batches: Sequence[Batch]) -> None:
        """Import the batches; if some of them exist already, only those after them."""
        count = sum(len(batch.rows) for batch in batches)
        remaining = list(batches)

        def attempt() -> None:
            nonlocal remaining
            if not remaining:
                return
            try:
                end = self._import([part for batch in remaining for part in batch[1:]])
            except ConnectionLostError:
                remaining = self._behind(remaining, end_offset(self._client, self._place))
                raise
            remaining = self._behind(remaining, end)
            if remaining:
                # `repeated` retries this code
                raise BrokerError(ErrorCode.REQUEST_TIMED_OUT, f"{self._place}: a part of the batches is not stored")

        self._client.repeated(attempt)
        self._written.records += count

    def _import(self, records: list[Buffer]) -> int:
        """Import once; return the log end afterwards."""
        answer = self._client.import_batches({self._place: records})[self._place]
        if answer.error and answer.error != ErrorCode.OFFSET_OUT_OF_RANGE:
            words = f"{self._place.topic}-{self._place.partition}: {error_name(answer.error)} {answer.message or ''}"
            passing = answer.error in RETRIABLE
            raise BrokerError(ErrorCode.REQUEST_TIMED_OUT if passing else answer.error, words.strip())
        if answer.error:
            self._written.met_others_at.append(answer.log_end_offset)
        return answer.log_end_offset

    def _behind(self, batches: list[Batch], end: int) -> list[Batch]:
        """Return the batches from the offset `end` on; the first may be a part of one."""
        left: list[Batch] = []
        for batch in batches:
            if batch.rows.first >= end:
                left.append(batch)
            elif batch.rows.last >= end:
                left += _encoded(batch.rows.between(end, batch.rows.last + 1), self._codec)
        return left


def produce_rows(
    client: WireClient,
    place: TopicPartition,
    rows: Iterable[Columns],
    codec: int,
    limit_bytes: int,
    written: Written,
    gaps: Gaps,
) -> None:
    """Write the rows to any Kafka so that their offsets are those of the rows. Raises PipelineError as soon as an
    offset differs.
    """
    writer = _DenseWriter(client, place, codec, written, gaps)
    with Ahead(writer.write) as ahead:
        for some in rows:
            for begin, end in pairwise(divided(some, limit_bytes, contiguous=True)):
                ahead.put(some.slice(begin, end))


class _DenseWriter:
    def __init__(self, client: WireClient, place: TopicPartition, codec: int, written: Written, gaps: Gaps) -> None:
        self._written = written
        self._client, self._place = client, place
        self._gaps = None if gaps.gapless else GapFiller(client, place)
        self._producer, self._codec = PartitionProducer(client, place, codec), codec
        self._end = end_offset(client, place)
        self._move_start = gaps.move_start

    def write(self, rows: Columns) -> None:
        """Write one batch; if it begins after the log end, fill the gap first."""
        if rows.first < self._end:  # exists already, and so do the rows before it
            self._move_start = False
            rows = rows.between(self._end, rows.last + 1)
        if not len(rows):
            return
        first = rows.first
        if self._move_start and first > 0:
            self._written.filled += fill_the_beginning(self._client, self._place, self._end, first)
        elif first > self._end:
            assert self._gaps is not None, "the driver has counted no gap"
            self._written.filled += self._gaps.fill(self._end, first)
        self._move_start = False
        self._append(rows)

    def _append(self, rows: Columns) -> None:
        try:
            base_offset = self._producer.append_batch(len(rows), lambda producer: self._encoded(rows, producer))
        except TooLargeError:
            if len(rows) == 1:
                raise
            middle = len(rows) // 2
            self._append(rows.slice(0, middle))
            self._append(rows.slice(middle, len(rows)))
            return
        if base_offset != rows.first:
            raise PipelineError(
                f"{self._place.topic}-{self._place.partition}: the record of offset {rows.first} came to "
                f"{base_offset}, since something else writes to the topic; delete it and restore again"
            )
        self._end = rows.last + 1
        self._written.records += len(rows)

    def _encoded(self, rows: Columns, producer: Producer) -> Sequence[Buffer]:
        (parts,) = encode_columns(rows, [0, len(rows)], self._codec, producer, dense=True)
        return parts
