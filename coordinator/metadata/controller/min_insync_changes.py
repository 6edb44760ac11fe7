"""A change of `min.insync.replicas`: where the ISR is now large enough, the ELR ends (KIP-966).

The high watermark may advance from then on without the replicas of the ELR, so that they could miss what is committed.
The records stand in one batch with those of the settings: no leader sees the one without the other. While a partition
has no ISR its high watermark stands, and its ELR stays what it is.
"""

from collections.abc import Iterator, Mapping

from odradek.coordinator.configs.definition import ResourceType
from odradek.coordinator.metadata.controller.broker_changes import may_lead_now
from odradek.coordinator.metadata.controller.partition_change import Wanted, change_partition
from odradek.coordinator.metadata.controller.replication_settings import MIN_INSYNC_REPLICAS
from odradek.coordinator.metadata.image.image import TopicImage
from odradek.coordinator.metadata.settings import DecisionContext
from odradek.wire.stored.metadata_records import PartitionChangeRecord


def end_elrs(
    context: DecisionContext, kind: ResourceType, name: str, changes: Mapping[str, str | None]
) -> Iterator[PartitionChangeRecord]:
    """The changes of partitions that follow when a resource's configs change so; None in `changes` removes a config."""
    if MIN_INSYNC_REPLICAS not in changes or kind not in (ResourceType.TOPIC, ResourceType.BROKER):
        return
    text = changes[MIN_INSYNC_REPLICAS]
    if kind is ResourceType.TOPIC:
        default = context.number(MIN_INSYNC_REPLICAS)
        topic = context.image.topic(name)
        if topic is not None:
            yield from _ended(context, topic, default if text is None else int(text))
    elif not name:
        min_insync = int(text or context.layers.static.get(MIN_INSYNC_REPLICAS, "1"))
        for topic in context.image.topics_by_id.values():
            if MIN_INSYNC_REPLICAS not in context.image.configs_of(ResourceType.TOPIC, topic.name):
                yield from _ended(context, topic, min_insync)


def _ended(context: DecisionContext, topic: TopicImage, min_insync: int) -> Iterator[PartitionChangeRecord]:
    may_lead = may_lead_now(context.image)
    for index, partition in enumerate(topic.partitions):
        if partition.elr and partition.isr:
            record = change_partition(
                partition, topic.topic_id, index, Wanted(), min_insync=min_insync, may_lead=may_lead
            )
            if record is not None:
                yield record
