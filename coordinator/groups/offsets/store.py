"""Committed offsets by group, topic and partition. Changed only in replay.

Offsets committed in a transaction are *pending* until its marker. If the transaction commits, the order of the records
in the log decides, not that of the markers: a commit that was written after a pending one is kept. Otherwise a
compacted log, without the older record, would give another state than the whole log.
"""

from collections.abc import Iterable, Iterator

from odradek.wire.stored.group_records import OffsetCommitValue

PartitionOffsets = dict[int, OffsetCommitValue]
TopicOffsets = dict[str, PartitionOffsets]
GroupTopicPartition = tuple[str, str, int]
"""The group id, topic name and partition index."""

_NOTHING: TopicOffsets = {}


class OffsetStore:
    """The last committed offset of each partition of each group, and the pending offsets of open transactions."""

    def __init__(self) -> None:
        self._groups: dict[str, TopicOffsets] = {}
        self._pending: dict[int, dict[GroupTopicPartition, tuple[int, OffsetCommitValue]]] = {}
        """(position in the log, value) by producer id and key."""
        self._open: dict[GroupTopicPartition, set[int]] = {}
        """The producer ids with a pending offset, by key."""
        self._positions: dict[GroupTopicPartition, int] = {}
        """The position in the log of the current commit, for keys with a pending offset."""
        self._position = 0

    def put(self, group_id: str, topic: str, partition: int, value: OffsetCommitValue) -> None:
        """Store a commit."""
        self._position += 1
        self._put((group_id, topic, partition), self._position, value)

    def _put(self, key: GroupTopicPartition, position: int, value: OffsetCommitValue) -> None:
        group_id, topic, partition = key
        self._groups.setdefault(group_id, {}).setdefault(topic, {})[partition] = value
        if key in self._open:
            self._positions[key] = position

    # Transactions

    def put_pending(
        self, producer_id: int, group_id: str, topic: str, partition: int, value: OffsetCommitValue
    ) -> None:
        """Store a pending commit, which becomes current when the producer's transaction commits."""
        self._position += 1
        key = (group_id, topic, partition)
        self._pending.setdefault(producer_id, {})[key] = (self._position, value)
        self._open.setdefault(key, set()).add(producer_id)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """Make the producer's pending offsets current, except where a later commit was written; or drop them."""
        for key, (position, value) in self._pending.pop(producer_id, {}).items():
            if committed and position > self._positions.get(key, 0):
                self._put(key, position, value)
            self._close(key, producer_id)

    def _close(self, key: GroupTopicPartition, producer_id: int) -> None:
        producers = self._open[key]
        producers.discard(producer_id)
        if not producers:
            del self._open[key]
            self._positions.pop(key, None)

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """True if an open transaction has a pending commit for the partition."""
        return (group_id, topic, partition) in self._open

    def pending_partitions(self, group_id: str) -> list[tuple[str, int]]:
        """Returns the (topic, partition) pairs of a group that have pending commits."""
        return [(topic, partition) for group, topic, partition in self._open if group == group_id]

    def each_pending(self) -> Iterator[tuple[int, str, str, int, OffsetCommitValue]]:
        """Yield every pending commit as (producer id, group, topic, partition, value)."""
        for producer_id, pending in self._pending.items():
            for key, (_, value) in pending.items():
                yield producer_id, *key, value

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Remove the commit and the pending commits of a partition, if there are any."""
        key = (group_id, topic, partition)
        for producer_id in self._open.pop(key, ()):
            del self._pending[producer_id][key]
        self._positions.pop(key, None)
        topics = self._groups.get(group_id, {})
        partitions = topics.get(topic, {})
        partitions.pop(partition, None)
        if not partitions:
            topics.pop(topic, None)
        if not topics:
            self._groups.pop(group_id, None)

    def get(self, group_id: str, topic: str, partition: int) -> OffsetCommitValue | None:
        """Returns one commit, None when there is none."""
        partitions = self._groups.get(group_id, _NOTHING).get(topic)
        return None if partitions is None else partitions.get(partition)

    def topics(self, group_id: str) -> TopicOffsets:
        """Returns all commits of a group, by topic and partition. Not to be changed."""
        return self._groups.get(group_id, _NOTHING)

    def groups(self) -> Iterable[tuple[str, TopicOffsets]]:
        """Returns every group with all its commits, by topic and partition. Not to be changed."""
        return self._groups.items()
