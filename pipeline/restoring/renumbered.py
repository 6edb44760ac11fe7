"""Writes records at new offsets, each with headers with its original position: its provenance.

Records are written in transactions of one transactional id for each source and partition. A new run fences the previous
one, aborts its open transaction, and continues after the last committed provenance. Records of other producers may be
in between.
"""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from odradek.pipeline.errors import PipelineError
from odradek.pipeline.restoring.reading import committed_between
from odradek.pipeline.restoring.writing import Written
from odradek.pipeline.topic_partition import EARLIEST, TopicPartition
from odradek.pipeline.wire_client import WireClient
from odradek.pipeline.writing.ahead import Ahead
from odradek.pipeline.writing.columns import Columns
from odradek.pipeline.writing.encoding import Headers, Row, in_batches
from odradek.pipeline.writing.producing import PartitionProducer, end_offset
from odradek.pipeline.writing.transactions import Transactions

TOPIC_HEADER: Final = "odradek.source.topic"
PARTITION_HEADER: Final = "odradek.source.partition"
OFFSET_HEADER: Final = "odradek.source.offset"
BEGIN_HEADER: Final = "odradek.source.begin"
_NAMES: Final = (TOPIC_HEADER, PARTITION_HEADER, OFFSET_HEADER, BEGIN_HEADER)
TRANSACTION_BYTES: Final = 16 * 1024 * 1024
"""The size of the values after which a transaction is committed."""
FIRST_WINDOW: Final = 1_000
WINDOW_GROWTH: Final = 10


class Provenance(NamedTuple):
    """A record's original position, and the first offset of the run that wrote it: all records from that offset up to
    it have been written.
    """

    topic: str
    partition: int
    offset: int
    begin: int

    def headers(self) -> list[tuple[str, bytes]]:
        """Return the headers to append to the record's own."""
        return [(name, str(value).encode()) for name, value in zip(_NAMES, self, strict=True)]


def provenance_of(headers: Headers) -> Provenance | None:
    """Return the provenance from the last headers of each name; None without them."""
    found = {name: value.decode() for name, value in headers if name in _NAMES and value is not None}
    if len(found) < len(_NAMES):
        return None
    topic, *numbers = (found[name] for name in _NAMES)
    return Provenance(topic, *(int(number) for number in numbers))


def last_provenance(client: WireClient, place: TopicPartition, source: TopicPartition) -> Provenance | None:
    """Return the provenance of the source's last committed record in the partition, read backwards in growing
    windows.
    """
    start, end = client.list_offsets([place], EARLIEST)[place], end_offset(client, place)
    size = FIRST_WINDOW
    begin = end
    while begin > start:
        begin = max(start, end - size)
        known = (provenance_of(record.headers) for record in committed_between(client, place, begin, end))
        of_source = [one for one in known if one is not None and one[:2] == source]
        if of_source:
            return max(of_source, key=lambda one: one.offset)
        size *= WINDOW_GROWTH
    return None


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of restored records: the source's partition, and the requested first offset."""

    place: TopicPartition
    begin: int


def renumber_rows(
    client: WireClient,
    place: TopicPartition,
    rows: Iterable[Columns],
    codec: int,
    limit_bytes: int,
    origin: Origin,
    written: Written,
) -> None:
    """Append the rows at the partition's end, except for those that an earlier run has appended. Raises PipelineError
    if an earlier run began at a later offset: then it is unknown which rows exist.
    """
    name = f"odradek-restore-{origin.place.topic}-{origin.place.partition}-to-{place.topic}-{place.partition}"
    transactions = Transactions(client, name)
    producer = PartitionProducer(client, place, codec, transactions.producer, name)
    writer = _TransactionalWriter(place, transactions, producer, written)
    last = last_provenance(client, place, origin.place)
    if last is not None and last.begin > origin.begin:
        raise PipelineError(
            f"{place.topic}-{place.partition} has records of {origin.place.topic} from offset {last.begin} on; those "
            f"from {origin.begin} on cannot be put before them, and are not told apart from them"
        )
    with Ahead(writer.write) as ahead:
        for batch in in_batches(_behind(rows, last, written), limit_bytes):
            ahead.put([_with_provenance(row, origin) for row in batch])
    writer.commit()


def _behind(rows: Iterable[Columns], last: Provenance | None, written: Written) -> Iterator[Row]:
    for row in itertools.chain.from_iterable(some.rows() for some in rows):
        if last is not None and row.offset <= last.offset:
            written.present += 1
        else:
            yield row


def _with_provenance(row: Row, origin: Origin) -> Row:
    provenance = Provenance(*origin.place, row.offset, origin.begin)
    return row._replace(headers=[*row.headers, *provenance.headers()])


class _TransactionalWriter:
    def __init__(
        self, place: TopicPartition, transactions: Transactions, producer: PartitionProducer, written: Written
    ) -> None:
        self._written = written
        self._place, self._transactions, self._producer = place, transactions, producer
        self._open_bytes = self._open_records = 0

    def write(self, rows: list[Row]) -> None:
        """Write one batch in the open transaction, or in the next."""
        if not self._open_records:
            self._transactions.begin([self._place])
        self._producer.append_parted(rows)
        self._open_records += len(rows)
        self._open_bytes += sum(len(row.value or b"") for row in rows)
        if self._open_bytes >= TRANSACTION_BYTES:
            self.commit()

    def commit(self) -> None:
        """End the transaction, if one is open."""
        if self._open_records:
            self._transactions.end(committed=True)
            self._written.records += self._open_records
        self._open_bytes = self._open_records = 0
