"""The broker's queries and changes of the outbox."""

from collections.abc import Collection, Sequence
from typing import Any, Final

from sqlalchemy import Connection, text

from odradek.partitions.model import OutboxEntry
from odradek.storage_backends.interface import StoreError
from odradek.storage_backends.outbox import OutboxRecord, OutboxTopic, TopicPartition
from odradek.storage_backends.sql.outbox.records import record_of

# Written so that the records of each turn are always found by the index: the planner's statistics of a queue are never
# up to date.
_NEXT: Final = text(
    "SELECT o.id, t.number, o.size_bytes FROM (SELECT * FROM odradek_outbox_turns "
    "WHERE NOT topic_id::text || partition = ANY(:without) ORDER BY number LIMIT :rows) AS t "
    "CROSS JOIN LATERAL (SELECT id, size_bytes FROM odradek_outbox "
    "WHERE transaction_id = t.transaction_id AND topic_id = t.topic_id AND partition = t.partition "
    "ORDER BY id LIMIT :rows) AS o ORDER BY t.number, o.id LIMIT :rows"
)
_RECORDS: Final = text(
    "SELECT id, topic, topic_id, partition, timestamp_ms, key, value, headers FROM odradek_outbox WHERE id = ANY(:ids)"
)
_TAKE: Final = text("DELETE FROM odradek_outbox WHERE id = ANY(:ids)")
_END_TURNS: Final = text(
    "DELETE FROM odradek_outbox_turns AS t WHERE number = ANY(:turns) AND NOT EXISTS (SELECT FROM odradek_outbox AS o "
    "WHERE o.transaction_id = t.transaction_id AND o.topic_id = t.topic_id AND o.partition = t.partition)"
)
_BURY: Final = text(
    "INSERT INTO odradek_outbox_dead (id, topic, topic_id, partition, timestamp_ms, key, value, headers, reason) "
    "SELECT id, topic, topic_id, partition, timestamp_ms, key, value, headers, :reason FROM odradek_outbox "
    "WHERE id = ANY(:ids)"
)
_TOPICS: Final = text("SELECT topic, topic_id, partitions, max_batch_bytes, is_compacted FROM odradek_outbox_topics")
_FORGET_TOPICS: Final = text("DELETE FROM odradek_outbox_topics WHERE topic = ANY(:names)")
_UPSERT_TOPIC: Final = text(
    "INSERT INTO odradek_outbox_topics (topic, topic_id, partitions, max_batch_bytes, is_compacted) "
    "VALUES (:topic, :topic_id, :partitions, :max_batch_bytes, :is_compacted) ON CONFLICT (topic) DO UPDATE SET "
    "topic_id = excluded.topic_id, partitions = excluded.partitions, max_batch_bytes = excluded.max_batch_bytes, "
    "is_compacted = excluded.is_compacted"
)


def pending(
    connection: Connection, max_records: int, max_bytes: int, without: Collection[TopicPartition]
) -> list[OutboxRecord]:
    """See `Outbox.pending`."""
    held = [f"{topic_id}{partition}" for topic_id, partition in without]
    found = connection.execute(_NEXT, {"without": held, "rows": max_records}).all()
    turns = _within(found, max_bytes)
    rows: Sequence[Any] = connection.execute(_RECORDS, {"ids": list(turns)}).all() if turns else []
    by_id = {row.id: row for row in rows}
    # An entry is missing if another broker has taken over the database in the meantime and written it.
    return [record_of(by_id[number], turn) for number, turn in turns.items() if number in by_id]


def _within(found: Sequence[Any], max_bytes: int) -> dict[int, int]:
    """Return the turns of the first entries with at most `max_bytes` together, by entry number; at least one."""
    turns: dict[int, int] = {}
    for number, turn, size_bytes in found:
        max_bytes -= size_bytes
        if turns and max_bytes < 0:
            break
        turns[number] = turn
    return turns


def take(connection: Connection, entries: Sequence[OutboxEntry]) -> None:
    """Delete entries, and the turns that then have none. Raises StoreError if an entry does not exist any more. That
    happens after a commit with unknown outcome that was successful: the records are already written.
    """
    if not entries:
        return
    taken = connection.execute(_TAKE, {"ids": [each.number for each in entries]}).rowcount
    if taken != len(entries):
        raise StoreError(f"of {len(entries)} entries of the outbox {taken} are left: the others are written already")
    connection.execute(_END_TURNS, {"turns": list({each.turn for each in entries})})


def move_to_dead_letters(connection: Connection, entries: Sequence[OutboxEntry], reason: str) -> None:
    """See `Outbox.move_to_dead_letters`."""
    connection.execute(_BURY, {"ids": [each.number for each in entries], "reason": reason})
    take(connection, entries)


def topics(connection: Connection) -> dict[str, OutboxTopic]:
    """See `Outbox.topics`."""
    return {row[0]: OutboxTopic(*row) for row in connection.execute(_TOPICS)}


def publish(connection: Connection, changed: Sequence[OutboxTopic], gone: Sequence[str]) -> None:
    """See `Outbox.publish`."""
    if gone:
        connection.execute(_FORGET_TOPICS, {"names": list(gone)})
    if changed:
        rows = [
            {
                "topic": each.name,
                "topic_id": each.topic_id,
                "partitions": each.partitions,
                "max_batch_bytes": each.max_batch_bytes,
                "is_compacted": each.is_compacted,
            }
            for each in changed
        ]
        connection.execute(_UPSERT_TOPIC, rows)
