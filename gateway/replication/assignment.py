"""What the metadata image says of this broker's replica of a partition."""

from odradek.coordinator.metadata.image.image import NO_LEADER, MetadataImage, PartitionImage
from odradek.partitions.follower import Follower, follow
from odradek.partitions.in_sync import ALONE, Brokers, BrokerStanding, Membership
from odradek.partitions.leader import Leader, lead
from odradek.partitions.model import LogWrite
from odradek.partitions.state import PartitionState
from odradek.wire.values import immutable


@immutable
class Assignment:
    """What the metadata says of this broker's replica: who leads in which epoch (-1: no broker).

    `leads` is whether it is this one; `membership` are the replicas and the ISR.
    """

    leader_epoch: int
    leader_id: int
    leads: bool
    membership: Membership = ALONE

    @classmethod
    def of(cls, partition: PartitionImage, node_id: int) -> "Assignment":
        """The part of this broker in a partition that it has a replica of."""
        membership = Membership(node_id, partition.replicas, partition.isr, partition.partition_epoch)
        return cls(partition.leader_epoch, partition.leader, partition.leader == node_id, membership)

    def role_over(
        self, state: PartitionState, brokers: Brokers, now_ms: int, before: Leader | Follower | None = None
    ) -> tuple[Leader | Follower, LogWrite | None]:
        """Take the role, and give what is to be stored of it with the first write.

        A log that was opened again in an epoch that it led goes on with what the role `before` knew of the ISR: a
        proposal of it may be in force. A log of a later epoch than the image has, which a node that starts takes from
        its newest snapshot, neither leads nor follows until the image knows that epoch.
        """
        if self.leader_epoch < state.leader_epoch:
            return follow(state, state.leader_epoch, NO_LEADER), None
        if self.leads and isinstance(before, Leader) and before.state.leader_epoch == self.leader_epoch:
            return before.over(state)
        if self.leads:
            return lead(state, self.leader_epoch, self.membership, brokers, now_ms)
        return follow(state, self.leader_epoch, self.leader_id), None


def standing_of(image: MetadataImage | None, broker_id: int) -> BrokerStanding | None:
    """What the image says of a broker, None while it knows none of that id."""
    broker = None if image is None else image.brokers.get(broker_id)
    return None if broker is None else BrokerStanding(broker.epoch, broker.is_active, broker.rack)


def no_broker(_broker_id: int) -> None:
    """The standing of every broker to a log that is not replicated by the metadata."""
    return
