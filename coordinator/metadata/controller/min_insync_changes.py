"""The effects of a change of `min.insync.replicas` on ELRs, which depend on it (KIP-966).

*Lowered*: if the ISR is now large enough, the ELR is cleared, because the high watermark may advance without its
replicas. These records are in the same batch as those of the settings, so that no leader reads one without the other.
While a partition has no ISR its high watermark does not move, and its ELR is kept.

*Raised*: the partition's epoch grows. A leader gets settings only from the metadata log, but the ISR also from the
response to its AlterPartition. With a proposal of the old epoch it could shrink its ISR and continue with the smaller
setting, while the controller counts the removed replica as an eligible leader. Such a proposal is now refused until the
leader has the new epoch, and with it the setting.
"""

from collections.abc import Iterator, Mapping

from odradek.coordinator.configs.definition import ResourceType
from odradek.coordinator.metadata.controller.broker_changes import may_lead_now
from odradek.coordinator.metadata.controller.partition_change import (
    Wanted,
    change_partition,
    effective_min_insync,
)
from odradek.coordinator.metadata.controller.replication_settings import MIN_INSYNC_REPLICAS, replication_settings
from odradek.coordinator.metadata.image.image import TopicImage
from odradek.coordinator.metadata.settings import DecisionContext
from odradek.wire.stored.metadata_records import PartitionChangeRecord


def follow_min_insync(
    context: DecisionContext, kind: ResourceType, name: str, changes: Mapping[str, str | None]
) -> Iterator[PartitionChangeRecord]:
    """Yield the changes of partitions after changes of a resource's configs; None in `changes` removes a config."""
    if MIN_INSYNC_REPLICAS not in changes or kind not in (ResourceType.TOPIC, ResourceType.BROKER):
        return
    text = changes[MIN_INSYNC_REPLICAS]
    if kind is ResourceType.TOPIC:
        default = context.number(MIN_INSYNC_REPLICAS)
        topic = context.image.topic(name)
        if topic is not None:
            yield from _changed(context, topic, default if text is None else int(text))
    elif not name:
        min_insync = int(text or context.layers.static.get(MIN_INSYNC_REPLICAS, "1"))
        for topic in context.image.topics_by_id.values():
            if MIN_INSYNC_REPLICAS not in context.image.configs_of(ResourceType.TOPIC, topic.name):
                yield from _changed(context, topic, min_insync)


def _changed(context: DecisionContext, topic: TopicImage, min_insync: int) -> Iterator[PartitionChangeRecord]:
    may_lead = may_lead_now(context.image)
    before = replication_settings(context, topic.name).min_insync
    for index, partition in enumerate(topic.partitions):
        replicas = partition.replicas
        if effective_min_insync(min_insync, replicas) > effective_min_insync(before, replicas):
            yield PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id)
        elif partition.elr and partition.isr:
            record = change_partition(
                partition, topic.topic_id, index, Wanted(), min_insync=min_insync, may_lead=may_lead
            )
            if record is not None:
                yield record
