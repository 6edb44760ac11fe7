"""The interface of a store with an outbox: records that users append in their own transactions of the database.

The records of a transaction get their *turn* in each partition when it commits, and turns are in the order of commits.
A broker reads what is pending, in that order, and writes it to the partitions' logs; `LogWrite.taken` names the entries
that a write contains, which are deleted from the outbox in the transaction of that write. So each record is either in
the outbox or in the log. A record that cannot be written is moved to a table of dead letters.

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
    """The properties of a topic that appending needs. `max_batch_bytes` limits a batch with one record."""

    name: str
    topic_id: UUID
    partitions: int
    max_batch_bytes: int
    is_compacted: bool


@immutable
class OutboxRecord:
    """A pending record, as it was appended. `topic` is the name that `topic_id` had then."""

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
        """The partition of the record."""
        return self.topic_id, self.partition


class Outbox(Protocol):
    """The outbox of a store. For one broker task at a time."""

    def listen(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from a thread of the store, soon after each commit that appended records. Calls may be lost when
        a connection breaks, so poll at intervals as well. `wake` must neither wait nor raise.
        """
        ...

    def topics(self) -> Mapping[str, OutboxTopic]:
        """Return the topics that may be appended to, by name."""
        ...

    def publish(self, changed: Sequence[OutboxTopic], gone: Sequence[str]) -> None:
        """Add or replace topics that may be appended to, and remove others by their names."""
        ...

    def pending(self, max_records: int, max_bytes: int, without: Collection[TopicPartition]) -> Sequence[OutboxRecord]:
        """Return the next pending records in order, except for those of the partitions `without`. At most
        `max_records`, with at most `max_bytes` in keys, values and headers, but at least one if there is any.
        """
        ...

    def move_to_dead_letters(self, records: Collection[OutboxRecord], reason: str) -> None:
        """Move records to the table of dead letters, with the reason why they cannot be written."""
        ...

    def stop(self) -> None:
        """Stop listening; `wake` is not called afterwards. Idempotent, never raises."""
        ...
