"""Writing records at the offsets that they have: by ImportBatches, or one after the other with gaps filled.

Both look at nothing but the partition's end, and so take up what a killed run left, wherever it was.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from odradek.pipeline.cluster import TopicPartition
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.restoring.gaps import GapFiller, fill_the_beginning
from odradek.pipeline.restoring.writing import Written
from odradek.pipeline.wire_client import LOOK_AGAIN, BrokerError, WireClient
from odradek.pipeline.wire_socket import ConnectionLostError, error_name
from odradek.pipeline.writing.ahead import Ahead
from odradek.pipeline.writing.encoding import Row, encode, in_batches
from odradek.pipeline.writing.producing import PartitionProducer, TooLargeError, end_offset
from odradek.wire.errors import ErrorCode

IMPORTED_BATCH_BYTES: Final = 256 * 1024
IMPORT_BYTES: Final = 2 * 1024 * 1024
"""Of all batches of one request, unless one is longer."""

EncodedBatches = list[tuple[int, int, bytes]]
"""First and last offset, and the bytes, of each batch."""


class Gaps(NamedTuple):
    """What is known of a partition's gaps: with `gapless` there are none.

    With `move_start` the log is made to start at the first row; else a gap before it is filled as the others are.
    """

    move_start: bool
    gapless: bool


def import_rows(client: WireClient, place: TopicPartition, rows: Iterable[Row], codec: int, written: Written) -> None:
    """Write the rows to an Odradek, and count them in `written`. While one request is under way the next is encoded."""
    importer = _Importer(client, place, codec, written)
    with Ahead(importer.write) as ahead:
        for request in _requests(in_batches(rows, IMPORTED_BATCH_BYTES)):
            ahead.put([(request_rows, encode(request_rows, codec)) for request_rows in request])


def _requests(batches: Iterable[list[Row]]) -> Iterator[list[list[Row]]]:
    pending: list[list[Row]] = []
    size = 0
    for batch in batches:
        pending.append(batch)
        size += sum(len(row.value or b"") + len(row.key or b"") for row in batch)
        if size >= IMPORT_BYTES:
            yield pending
            pending, size = [], 0
    if pending:
        yield pending


class _Importer:
    def __init__(self, client: WireClient, place: TopicPartition, codec: int, written: Written) -> None:
        self._written = written
        self._client, self._place, self._codec = client, place, codec

    def write(self, batches: Sequence[tuple[list[Row], bytes]]) -> None:
        """Import the batches; where some of them are there already, what is behind those."""
        count = sum(len(rows) for rows, _ in batches)
        remaining = list(batches)

        def attempt() -> None:
            nonlocal remaining
            if not remaining:
                return
            try:
                end = self._import(b"".join([batch for _, batch in remaining]))
            except ConnectionLostError:
                remaining = self._behind(remaining, end_offset(self._client, self._place))
                raise
            remaining = self._behind(remaining, end)
            if remaining:
                raise BrokerError(ErrorCode.REQUEST_TIMED_OUT, f"{self._place}: a part of the batches is not stored")

        self._client.repeated(attempt)
        self._written.records += count

    def _import(self, records: bytes) -> int:
        """Where the log ends afterwards."""
        answer = self._client.import_batches({self._place: records})[self._place]
        if answer.error and answer.error != ErrorCode.OFFSET_OUT_OF_RANGE:
            words = f"{self._place.topic}-{self._place.partition}: {error_name(answer.error)} {answer.message or ''}"
            passing = answer.error in LOOK_AGAIN
            raise BrokerError(ErrorCode.REQUEST_TIMED_OUT if passing else answer.error, words.strip())
        if answer.error:
            self._written.met_others_at.append(answer.log_end_offset)
        return answer.log_end_offset

    def _behind(self, batches: list[tuple[list[Row], bytes]], end: int) -> list[tuple[list[Row], bytes]]:
        """The batches, or what is left of them, from the offset `end` on."""
        left: list[tuple[list[Row], bytes]] = []
        for rows, batch in batches:
            if rows[0].offset >= end:
                left.append((rows, batch))
            elif rows[-1].offset >= end:
                kept = [row for row in rows if row.offset >= end]
                left.append((kept, encode(kept, self._codec)))
        return left


def produce_rows(
    client: WireClient,
    place: TopicPartition,
    rows: Iterable[Row],
    codec: int,
    limit_bytes: int,
    written: Written,
    gaps: Gaps,
) -> None:
    """Write the rows to any Kafka, whose offsets have to come out as the rows'.

    Raises PipelineError as soon as an offset does not come out.
    """
    writer = _DenseWriter(client, place, codec, written, gaps)
    with Ahead(writer.write) as ahead:
        for batch in in_batches(rows, limit_bytes, contiguous=True):
            ahead.put(batch)


class _DenseWriter:
    def __init__(self, client: WireClient, place: TopicPartition, codec: int, written: Written, gaps: Gaps) -> None:
        self._written = written
        self._client, self._place = client, place
        self._gaps = None if gaps.gapless else GapFiller(client, place)
        self._producer = PartitionProducer(client, place, codec)
        self._end = end_offset(client, place)
        self._move_start = gaps.move_start

    def write(self, rows: list[Row]) -> None:
        """Write one batch, and before it what its first offset is ahead of the end."""
        if rows[0].offset < self._end:  # there already; so is the beginning
            self._move_start = False
            rows = [row for row in rows if row.offset >= self._end]
        if not rows:
            return
        first = rows[0].offset
        if self._move_start and first > 0:
            self._written.filled += fill_the_beginning(self._client, self._place, self._end, first)
        elif first > self._end:
            assert self._gaps is not None, "the driver has counted no gap"
            self._written.filled += self._gaps.fill(self._end, first)
        self._move_start = False
        self._append(rows)

    def _append(self, rows: list[Row]) -> None:
        try:
            base_offset = self._producer.append(rows)
        except TooLargeError:
            if len(rows) == 1:
                raise
            middle = len(rows) // 2
            self._append(rows[:middle])
            self._append(rows[middle:])
            return
        if base_offset != rows[0].offset:
            raise PipelineError(
                f"{self._place.topic}-{self._place.partition}: the record of offset {rows[0].offset} came to "
                f"{base_offset}, since something else writes to the topic; delete it and restore again"
            )
        self._end = rows[-1].offset + 1
        self._written.records += len(rows)
