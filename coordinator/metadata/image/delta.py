"""The changes of an image by metadata records, and the resulting image.

A delta begins with an image. Records are replayed into it (`replay.py`), and `apply` returns the next image, which
shares with the previous one everything that no record changed. Consumers of metadata get the delta with the image, and
process only the changes. The dictionaries of an image are copied at their first change and not per record: with 10,000
topics that takes well under a millisecond.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, Generic, TypeVar
from uuid import UUID

from odradek.coordinator.metadata.image.elections import ElectionCounts
from odradek.coordinator.metadata.image.image import (
    BrokerImage,
    ConfigKey,
    ControllerImage,
    MetadataImage,
    PartitionImage,
    QuotaEntity,
    ScramCredential,
    ScramKey,
    TopicImage,
)
from odradek.coordinator.metadata.topic_names import collision_key

K = TypeVar("K")
V = TypeVar("V")

MAX_DELETED: Final = 100_000
"""The maximum number of ids of deleted topics in a delta, the newest ones. Logs of others are kept as stray logs."""


class MapDelta(Generic[K, V]):
    """A mapping of an image, and its changes. `changed` has the keys that were set or removed, in order."""

    def __init__(self, before: Mapping[K, V]) -> None:
        self.changed: dict[K, None] = {}
        self._latest = before
        self._copy: dict[K, V] | None = None

    def get(self, key: K) -> V | None:
        """Returns the current value, None if there is none."""
        return self._latest.get(key)

    def set(self, key: K, value: V) -> None:
        """Set a value."""
        self._writable()[key] = value
        self.changed[key] = None

    def remove(self, key: K) -> None:
        """Remove a value; does nothing when there is none."""
        if key in self._latest:
            del self._writable()[key]
            self.changed[key] = None

    def apply(self) -> Mapping[K, V]:
        """Returns the current mapping, which later changes do not alter."""
        self._copy = None
        return self._latest

    def _writable(self) -> dict[K, V]:
        if self._copy is None:
            self._latest = self._copy = dict(self._latest)
        return self._copy


class TopicsDelta:
    """The topics of an image, and their changes.

    `changed` has the new and changed partitions by topic id, without deleted topics. `deleted` has the ids of topics
    that were deleted since the image, including those created since; the last MAX_DELETED of them. Changes of
    partitions are collected per topic, so that a topic with many partitions is rebuilt once.
    """

    def __init__(self, before: MetadataImage) -> None:
        self.before = before
        self.changed: dict[UUID, dict[int, None]] = {}
        self.deleted: dict[UUID, None] = {}
        self.by_name = MapDelta(before.topics_by_name)
        self.colliding = MapDelta(before.colliding)
        self.partition_count = before.partition_count
        self._by_id = MapDelta(before.topics_by_id)
        self._open: dict[UUID, dict[int, PartitionImage]] = {}

    def deleted_topics(self) -> list[TopicImage]:
        """Returns the deleted topics of the previous image; others with the same names may have been created since."""
        return [self.before.topics_by_id[each] for each in self.deleted if each in self.before.topics_by_id]

    def create(self, topic: TopicImage) -> None:
        """Add a topic that has no partitions yet."""
        self._by_id.set(topic.topic_id, topic)
        self.by_name.set(topic.name, topic)
        self.changed.setdefault(topic.topic_id, {})
        key = collision_key(topic.name)
        if key is not None:
            self.colliding.set(key, (*(self.colliding.get(key) or ()), topic.name))

    def delete(self, topic_id: UUID) -> str:
        """Remove a topic, and return its name. Raises KeyError when there is none."""
        topic = self._topic(topic_id)
        self.partition_count -= len(self._open.pop(topic_id, topic.partitions))
        self.changed.pop(topic_id, None)
        self.deleted[topic_id] = None
        if len(self.deleted) > MAX_DELETED:
            del self.deleted[next(iter(self.deleted))]
        self._by_id.remove(topic_id)
        self.by_name.remove(topic.name)
        self._remove_collision(topic.name)
        return topic.name

    def _remove_collision(self, name: str) -> None:
        key = collision_key(name)
        if key is None:
            return
        left = tuple(each for each in self.colliding.get(key) or () if each != name)
        if left:
            self.colliding.set(key, left)
        else:
            self.colliding.remove(key)

    def partition(self, topic_id: UUID, index: int) -> PartitionImage:
        """Returns the current state of a partition. Raises LookupError when there is none."""
        opened = self._open.get(topic_id)
        return self._topic(topic_id).partitions[index] if opened is None else opened[index]

    def set_partition(self, topic_id: UUID, index: int, partition: PartitionImage) -> None:
        """Add a partition, or set the state of one. Raises KeyError when there is no such topic."""
        opened = self._open.get(topic_id)
        if opened is None:
            opened = self._open[topic_id] = dict(enumerate(self._topic(topic_id).partitions))
        self.partition_count += index not in opened
        opened[index] = partition
        changed = self.changed.get(topic_id)
        if changed is None:
            changed = self.changed[topic_id] = {}
        changed[index] = None

    def apply(self) -> Mapping[UUID, TopicImage]:
        """Returns the current topics by id."""
        for topic_id, partitions in self._open.items():
            topic = replace(self._topic(topic_id), partitions=tuple(partitions[index] for index in sorted(partitions)))
            self._by_id.set(topic_id, topic)
            self.by_name.set(topic.name, topic)
        self._open.clear()
        return self._by_id.apply()

    def _topic(self, topic_id: UUID) -> TopicImage:
        topic = self._by_id.get(topic_id)
        if topic is None:
            raise KeyError(topic_id)
        return topic


class MetadataDelta:
    """Changes on top of an image.

    `offset` and `epoch` are those of the last replayed record, `elections` those that the replayed records report. The
    contents are changed only by `replay.py` and `difference.py`.
    """

    def __init__(self, before: MetadataImage | None = None) -> None:
        self.before = before or MetadataImage()
        self.offset = self.before.offset
        self.epoch = self.before.epoch
        self.cluster_id = self.before.cluster_id
        self.features = self.before.features
        self.next_producer_id = self.before.next_producer_id
        self.brokers: MapDelta[int, BrokerImage] = MapDelta(self.before.brokers)
        self.controllers: MapDelta[int, ControllerImage] = MapDelta(self.before.controllers)
        self.topics = TopicsDelta(self.before)
        self.elections = ElectionCounts()
        self.configs: MapDelta[ConfigKey, Mapping[str, str]] = MapDelta(self.before.configs)
        self.quotas: MapDelta[QuotaEntity, Mapping[str, float]] = MapDelta(self.before.quotas)
        self.scram: MapDelta[ScramKey, ScramCredential] = MapDelta(self.before.scram)
        self._image: MetadataImage | None = self.before

    def advance(self, offset: int, epoch: int) -> None:
        """Record that the delta includes the record at `offset`, of the leader's `epoch`."""
        self.offset, self.epoch = offset, epoch
        self._image = None

    def apply(self) -> MetadataImage:
        """Returns the image after all replayed records; more may follow."""
        if self._image is None:
            topics_by_id = self.topics.apply()
            self._image = MetadataImage(
                cluster_id=self.cluster_id,
                brokers=self.brokers.apply(),
                controllers=self.controllers.apply(),
                topics_by_name=self.topics.by_name.apply(),
                topics_by_id=topics_by_id,
                configs=self.configs.apply(),
                quotas=self.quotas.apply(),
                scram=self.scram.apply(),
                features=self.features,
                colliding=self.topics.colliding.apply(),
                next_producer_id=self.next_producer_id,
                partition_count=self.topics.partition_count,
                offset=self.offset,
                epoch=self.epoch,
            )
        return self._image

    def changed_configs(self, resource_type: int) -> Iterable[str]:
        """Returns the names of the resources of this type whose configs changed."""
        return [name for kind, name in self.configs.changed if kind == resource_type]
