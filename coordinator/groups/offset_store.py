"""Committed offsets: what the OffsetCommit records say, by group, topic and partition. Changed only in replay."""

from collections.abc import Iterator

from wire.stored.group_records import OffsetCommitValue

PartitionOffsets = dict[int, OffsetCommitValue]
TopicOffsets = dict[str, PartitionOffsets]

_NOTHING: TopicOffsets = {}


class OffsetStore:
    """The last committed offset of each partition of each group."""

    def __init__(self) -> None:
        self._groups: dict[str, TopicOffsets] = {}

    def put(self, group_id: str, topic: str, partition: int, value: OffsetCommitValue) -> None:
        """Remember a commit."""
        self._groups.setdefault(group_id, {}).setdefault(topic, {})[partition] = value

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Forget a commit, if there is one, and whatever is then empty."""
        topics = self._groups.get(group_id, {})
        partitions = topics.get(topic, {})
        partitions.pop(partition, None)
        if not partitions:
            topics.pop(topic, None)
        if not topics:
            self._groups.pop(group_id, None)

    def get(self, group_id: str, topic: str, partition: int) -> OffsetCommitValue | None:
        """One commit, None when there is none."""
        partitions = self._groups.get(group_id, _NOTHING).get(topic)
        return None if partitions is None else partitions.get(partition)

    def topics(self, group_id: str) -> TopicOffsets:
        """All commits of a group, by topic and partition. Not to be changed."""
        return self._groups.get(group_id, _NOTHING)

    def each(self) -> Iterator[tuple[str, str, int, OffsetCommitValue]]:
        """Every commit as (group, topic, partition, value)."""
        for group_id, topics in self._groups.items():
            for topic, partitions in topics.items():
                for partition, value in partitions.items():
                    yield group_id, topic, partition, value
