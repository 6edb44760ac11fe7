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
from typing import Final

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

ALL_BROKERS: Final = ResourceType.BROKER, ""


def follow_min_insync(
    context: DecisionContext, changes: Mapping[tuple[ResourceType, str], str | None]
) -> Iterator[PartitionChangeRecord]:
    """Yield the changes of partitions after all changes of the setting in a request, by resource; None removes it.

    A topic is affected by its value in force before and after the whole request.
    """
    if not changes:
        return
    default = int(changes.get(ALL_BROKERS) or context.number(MIN_INSYNC_REPLICAS))
    for topic in context.image.topics_by_id.values():
        own = ResourceType.TOPIC, topic.name
        if ALL_BROKERS in changes or own in changes:
            before = context.image.configs_of(*own).get(MIN_INSYNC_REPLICAS)
            yield from _changed(context, topic, int(changes.get(own, before) or default))


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
