"""The outbox of a store in PostgreSQL."""

from collections.abc import Callable, Collection, Mapping, Sequence

from odradek.storage_backends.outbox import OutboxRecord, OutboxTopic, TopicPartition
from odradek.storage_backends.sql.database import Database
from odradek.storage_backends.sql.group import CommitGroup
from odradek.storage_backends.sql.outbox import queries
from odradek.storage_backends.sql.outbox.listener import Listener


class SqlOutbox:
    """An `Outbox`. All its writes are fenced by the owner's epoch."""

    def __init__(self, database: Database, group: CommitGroup) -> None:
        self._database, self._group = database, group
        self._listener: Listener | None = None

    def listen(self, wake: Callable[[], None]) -> None:
        """See `Outbox.listen`."""
        assert self._listener is None, "one broker listens"
        self._listener = Listener(self._database, wake)

    def topics(self) -> Mapping[str, OutboxTopic]:
        """See `Outbox.topics`."""
        with self._database.reading("reading the topics of the outbox") as connection:
            return queries.topics(connection)

    def publish(self, changed: Sequence[OutboxTopic], gone: Sequence[str]) -> None:
        """See `Outbox.publish`."""
        self._group.run(lambda connection: queries.publish(connection, changed, gone))

    def pending(self, max_records: int, max_bytes: int, without: Collection[TopicPartition]) -> Sequence[OutboxRecord]:
        """See `Outbox.pending`."""
        with self._database.reading("reading the outbox") as connection:
            return queries.pending(connection, max_records, max_bytes, without)

    def move_to_dead_letters(self, records: Collection[OutboxRecord], reason: str) -> None:
        """See `Outbox.move_to_dead_letters`."""
        entries = [each.entry for each in records]
        self._group.run(lambda connection: queries.move_to_dead_letters(connection, entries, reason))

    def stop(self) -> None:
        """See `Outbox.stop`."""
        if self._listener is not None:
            self._listener.stop()
            self._listener = None
