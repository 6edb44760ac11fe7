"""Elections without a request: preferred replicas regain their leaderships, leaderless partitions get a leader.

Both run at intervals while the controller is active: `auto.leader.rebalance.enable` with
`leader.imbalance.check.interval.seconds`, and `unclean.leader.election.interval.ms` for topics whose
`unclean.leader.election.enable` was turned on after they had lost their leaders.
"""

from odradek.coordinator.metadata.controller.broker_changes import (
    BrokerChange,
    changed_partitions,
    elect_leaderless,
    limited,
    may_lead_now,
)
from odradek.coordinator.metadata.controller.partition_change import Election, Wanted
from odradek.coordinator.metadata.controller.replication_settings import ReplicationSettings
from odradek.coordinator.metadata.image.image import PartitionImage
from odradek.coordinator.metadata.settings import DecisionContext


def balance_leaders(context: DecisionContext) -> BrokerChange:
    """Make preferred replicas leaders again that may lead and are in sync."""
    may_lead = may_lead_now(context.image)

    def wanted(partition: PartitionImage, _settings: ReplicationSettings) -> Wanted | None:
        preferred = partition.replicas[0]
        if partition.leader == preferred or preferred not in partition.isr or not may_lead(preferred):
            return None
        return Wanted(election=Election.PREFERRED)

    return limited(changed_partitions(context, wanted, may_lead))


def elect_uncleanly(context: DecisionContext) -> BrokerChange:
    """Elect leaders of leaderless partitions whose topics allow unclean elections, which may lose records."""
    return elect_leaderless(context, only_unclean=True)
