"""Values exchanged between a partition's pure logic and the store that keeps its log.

This package creates them and `storage_backends` writes them; stores import no other module of this package. All offsets
are Kafka offsets; all times are milliseconds since the epoch, -1 if there is none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final
from uuid import UUID

from odradek.wire.values import immutable

MAX_RECORDS_WITH_ROWS: Final = 100_000
"""The maximum number of records in a batch of a topic whose records a database stores as rows. All rows of a batch are
in memory at once, and a batch of a few kilobytes may contain millions of records.
"""


@immutable
class PartitionKey:
    """One incarnation of a partition: a topic that is deleted and created again has another `topic_id`."""

    topic: str
    topic_id: UUID
    index: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    def __lt__(self, other: "PartitionKey") -> bool:
        return (self.topic, self.topic_id, self.index) < (other.topic, other.topic_id, other.index)


@immutable
class StoredBatch:
    """One whole record batch (magic 2); `data` already contains its base offset and leader epoch."""

    base_offset: int
    last_offset: int
    max_timestamp_ms: int
    data: bytes | bytearray | memoryview


@immutable
class EpochStart:
    """The first offset written in a leader epoch (KIP-101)."""

    leader_epoch: int
    start_offset: int


@immutable
class AbortedTransaction:
    """The extent of an aborted transaction, as Fetch reports it to read_committed consumers (KIP-98)."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


@immutable
class SegmentInfo:
    """One segment: `base_offset` to `end_offset` (exclusive), the size of its batches, and whether it is sealed.

    The first segment may contain batches below the log start: they count here, but are never read.
    """

    base_offset: int
    end_offset: int
    size_bytes: int
    max_timestamp_ms: int
    sealed: bool


@immutable
class OutboxEntry:
    """A record in a store's outbox: its number there, and the number that orders its transaction."""

    number: int
    turn: int


def _no_producers() -> Mapping[int, bytes | None]:
    return {}


@immutable
class LogWrite:
    """The changes of one decision to a log; a store makes all of them durable in one transaction, or none.

    `producers` maps a producer id to its complete new state (opaque to the store), or to None to remove it.
    `log_start_offset`, when not None, moves the log start forward; `clean_offset` is the offset up to which the log is
    compacted. The batches of a `replicated` write may have gaps before and between them: the leader's log is compacted.
    `taken` are the entries of the store's outbox that the batches contain; this write removes them from the outbox.
    """

    batches: Sequence[StoredBatch] = ()
    epochs: Sequence[EpochStart] = ()
    producers: Mapping[int, bytes | None] = field(default_factory=_no_producers)
    aborted: Sequence[AbortedTransaction] = ()
    log_start_offset: int | None = None
    clean_offset: int | None = None
    replicated: bool = False
    taken: Sequence[OutboxEntry] = ()


@immutable
class ProducersAt:
    """The rows of all producers when the log ended at `end_offset`, as the store had them."""

    end_offset: int
    rows: Mapping[int, bytes]


@immutable
class LogSnapshot:
    """The contents of a log in a store besides its batches: all that the pure logic needs to continue.

    Everything below `clean_offset` is compacted.
    """

    log_start_offset: int = 0
    log_end_offset: int = 0
    max_timestamp_ms: int = -1
    epochs: Sequence[EpochStart] = ()
    producers: Mapping[int, bytes] = field(default_factory=dict[int, bytes])
    aborted: Sequence[AbortedTransaction] = ()
    clean_offset: int = 0
