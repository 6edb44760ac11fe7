"""The assignment of this broker's replica of a partition, from the metadata image."""

from odradek.coordinator.metadata.image.image import NO_LEADER, MetadataImage, PartitionImage
from odradek.partitions.follower import Follower, follow
from odradek.partitions.in_sync import ALONE, Brokers, BrokerStanding, Membership
from odradek.partitions.leader import Leader, lead
from odradek.partitions.model import LogWrite
from odradek.partitions.state import PartitionState
from odradek.wire.values import immutable


@immutable
class Assignment:
    """The leader and leader epoch of a partition, and this broker's role.

    `leader_id` is -1 if no broker leads. `leads` is True if this broker is the leader. `membership` are the replicas
    and the ISR.
    """

    leader_epoch: int
    leader_id: int
    leads: bool
    membership: Membership = ALONE

    @classmethod
    def of(cls, partition: PartitionImage, node_id: int, *, may_lead: bool = True) -> "Assignment":
        """The assignment of this broker, which has a replica of the partition. No broker leads instead of this one
        unless it `may_lead`.
        """
        membership = Membership(node_id, partition.replicas, partition.isr, partition.partition_epoch)
        if partition.leader == node_id and not may_lead:
            return cls(partition.leader_epoch, NO_LEADER, leads=False, membership=membership)
        return cls(partition.leader_epoch, partition.leader, partition.leader == node_id, membership)

    def role_over(
        self, state: PartitionState, brokers: Brokers, now_ms: int, before: Leader | Follower | None = None
    ) -> tuple[Leader | Follower, LogWrite | None]:
        """Create the role, and the write, if any, to store with the first write of the log at the latest.

        A log that was reopened in an epoch that it led keeps the ISR state of the role `before`: a proposal of it may
        be in force. If the log's epoch is later than the image's (a node that starts has the image of its newest
        snapshot), the replica neither leads nor follows until the image has that epoch.
        """
        if self.leader_epoch < state.leader_epoch:
            return follow(state, state.leader_epoch, NO_LEADER), None
        if self.leads and isinstance(before, Leader) and before.state.leader_epoch == self.leader_epoch:
            return before.over(state)
        if self.leads:
            return lead(state, self.leader_epoch, self.membership, brokers, now_ms)
        return follow(state, self.leader_epoch, self.leader_id), None


def standing_of(image: MetadataImage | None, broker_id: int) -> BrokerStanding | None:
    """The state of a broker in the image; None if the image does not have it."""
    broker = None if image is None else image.brokers.get(broker_id)
    return None if broker is None else BrokerStanding(broker.epoch, broker.is_active, broker.rack)


def no_broker(_broker_id: int) -> None:
    """The standing of every broker for a log that the metadata does not replicate."""
    return
