"""The two settings of a topic that affect elections: `min.insync.replicas`, `unclean.leader.election.enable`."""

from typing import Final

from odradek.coordinator.configs.definition import ResourceType
from odradek.coordinator.configs.tables import TOPIC_CONFIGS
from odradek.coordinator.metadata.settings import DecisionContext
from odradek.wire.values import immutable

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"


@immutable
class ReplicationSettings:
    """The values in force for one topic."""

    min_insync: int
    unclean_election: bool


def replication_settings(context: DecisionContext, topic: str) -> ReplicationSettings:
    """Returns the topic's own settings, or those of the broker that decides where it has none."""
    values = {
        name: context.layers.values[name] if text is None else TOPIC_CONFIGS[name].parse(text)
        for name in (MIN_INSYNC_REPLICAS, UNCLEAN_ELECTION)
        for text in (context.image.configs_of(ResourceType.TOPIC, topic).get(name),)
    }
    min_insync = values[MIN_INSYNC_REPLICAS]
    assert isinstance(min_insync, int), "the table of configs has it as an int"
    return ReplicationSettings(min_insync, values[UNCLEAN_ELECTION] is True)
