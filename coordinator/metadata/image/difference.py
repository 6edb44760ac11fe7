"""The difference of two images: a node that has loaded a snapshot processes it like any other change."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from odradek.coordinator.metadata.image.delta import MapDelta, MetadataDelta, TopicsDelta
from odradek.coordinator.metadata.image.image import MetadataImage

K = TypeVar("K")
V = TypeVar("V")


def difference(before: MetadataImage, after: MetadataImage) -> MetadataDelta:
    """Returns a delta on top of `before` that results in `after`; it contains only what differs.

    A topic that was deleted and created again, with another id, is both in `deleted` and in `changed`.
    """
    delta = MetadataDelta(before)
    delta.cluster_id, delta.features, delta.next_producer_id = after.cluster_id, after.features, after.next_producer_id
    _change(delta.brokers, before.brokers, after.brokers)
    _change(delta.controllers, before.controllers, after.controllers)
    _change_topics(delta.topics, before, after)
    _change(delta.configs, before.configs, after.configs)
    _change(delta.quotas, before.quotas, after.quotas)
    _change(delta.scram, before.scram, after.scram)
    delta.advance(after.offset, after.epoch)
    return delta


def _change(delta: MapDelta[K, V], before: Mapping[K, V], after: Mapping[K, V]) -> None:
    for key in [each for each in before if each not in after]:
        delta.remove(key)
    for key, value in after.items():
        if before.get(key) != value:
            delta.set(key, value)


def _change_topics(delta: TopicsDelta, before: MetadataImage, after: MetadataImage) -> None:
    for topic_id in [each for each in before.topics_by_id if each not in after.topics_by_id]:
        delta.delete(topic_id)
    for topic_id, topic in after.topics_by_id.items():
        known = before.topics_by_id.get(topic_id)
        if known is None:
            delta.create(replace(topic, partitions=()))
        old = () if known is None else known.partitions
        for index, partition in enumerate(topic.partitions):
            if index >= len(old) or old[index] != partition:
                delta.set_partition(topic_id, index, partition)
    _change(delta.colliding, delta.colliding.apply(), after.colliding)
