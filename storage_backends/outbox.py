"""What a store promises that has an outbox: records that its users append in transactions of the database's own.

The records of a transaction get their *turn* in each partition when it commits, and turns are in the order of commits.
A broker reads what is pending, in that order, and writes it to the partitions' logs; `LogWrite.taken` names the entries
that a write takes, which leave the outbox in the transaction of that write. So each record is in the outbox or in the
log, and never in both. A record that cannot be written is moved to a table of dead letters.

All methods but `listen` and `stop` may wait for the database, and raise StoreError.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol
from uuid import UUID

from odradek.partitions.model import OutboxEntry
from odradek.wire.values import immutable

TopicPartition = tuple[UUID, int]
"""A partition, by its topic's id and its index."""


@immutable
class OutboxTopic:
    """What appending has to know of a topic. `max_batch_bytes` bounds a batch with one record."""

    name: str
    topic_id: UUID
    partitions: int
    max_batch_bytes: int
    is_compacted: bool


@immutable
class OutboxRecord:
    """A record that waits, as it was appended. Its `topic` is the name that `topic_id` had then."""

    entry: OutboxEntry
    topic: str
    topic_id: UUID
    partition: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    @property
    def place(self) -> TopicPartition:
        """The partition that it is for."""
        return self.topic_id, self.partition


class Outbox(Protocol):
    """The outbox of a store. For one broker task at a time."""

    def listen(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from a thread of the store's, soon after each commit that appended something.

        Some calls may be lost, with a connection: look now and then all the same. `wake` must neither wait nor raise.
        """
        ...

    def topics(self) -> Mapping[str, OutboxTopic]:
        """The topics that may be appended to, by name."""
        ...

    def publish(self, changed: Sequence[OutboxTopic], gone: Sequence[str]) -> None:
        """Add or replace topics that may be appended to, and remove others by their names."""
        ...

    def pending(self, max_records: int, max_bytes: int, without: Collection[TopicPartition]) -> Sequence[OutboxRecord]:
        """The records whose turn is next, but for those of the partitions `without`.

        At most `max_records`, and of `max_bytes` in keys, values and headers, but one at least where there is one.
        """
        ...

    def move_to_dead_letters(self, records: Collection[OutboxRecord], reason: str) -> None:
        """Move records to the dead letters, with the reason why they cannot be written."""
        ...

    def stop(self) -> None:
        """End what `listen` began; `wake` is not called any more. Idempotent, never raises."""
        ...
