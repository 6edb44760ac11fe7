"""The two settings of a topic that affect elections: `min.insync.replicas`, `unclean.leader.election.enable`.

The controller decides by `min.insync.replicas` which replicas are eligible leaders, and leaders decide by it what is
committed. Both must use the same value (KIP-966), whatever their nodes' own settings say. So the value for topics
without their own is in the metadata log, as the setting of all brokers, from the cluster's first records on; it can be
changed, but not removed, nor set for a single broker.
"""

from typing import Final

from odradek.coordinator.configs.definition import ResourceType
from odradek.coordinator.configs.tables import TOPIC_CONFIGS
from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.coordinator.metadata.settings import DecisionContext
from odradek.wire.schema.schema import Message
from odradek.wire.stored.metadata_records import ConfigRecord
from odradek.wire.values import immutable

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"


@immutable
class ReplicationSettings:
    """The values in force for one topic."""

    min_insync: int
    unclean_election: bool


def has_min_insync(image: MetadataImage) -> bool:
    """True if the metadata has the value for topics without their own."""
    return MIN_INSYNC_REPLICAS in image.configs_of(ResourceType.BROKER, "")


def fix_min_insync(context: DecisionContext) -> list[Message]:
    """Write the deciding controller's own value as that of all brokers, unless the metadata has one."""
    if has_min_insync(context.image):
        return []
    text = str(context.number(MIN_INSYNC_REPLICAS))
    kind = ResourceType.BROKER
    return [ConfigRecord(resource_type=kind, resource_name="", name=MIN_INSYNC_REPLICAS, value=text)]


def replication_settings(context: DecisionContext, topic: str) -> ReplicationSettings:
    """Returns the topic's own settings, or those of all brokers, or of the broker that decides."""
    values = {
        name: context.layers.values[name] if text is None else TOPIC_CONFIGS[name].parse(text)
        for name in (MIN_INSYNC_REPLICAS, UNCLEAN_ELECTION)
        for text in (context.image.configs_of(ResourceType.TOPIC, topic).get(name),)
    }
    min_insync = values[MIN_INSYNC_REPLICAS]
    assert isinstance(min_insync, int), "the table of configs has it as an int"
    return ReplicationSettings(min_insync, values[UNCLEAN_ELECTION] is True)
