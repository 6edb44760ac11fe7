"""What the metadata image says of this broker's replica of a partition."""

from collections.abc import Sequence

from odradek.coordinator.metadata.image.image import PartitionImage
from odradek.partitions.follower import Follower, follow
from odradek.partitions.leader import Leader, lead
from odradek.partitions.model import LogWrite
from odradek.partitions.state import PartitionState
from odradek.wire.values import immutable


@immutable
class Assignment:
    """What the metadata says of this broker's replica: who leads in which epoch (-1: no broker).

    `leads` is whether it is this one; `followers` are the other in-sync replicas then.
    """

    leader_epoch: int
    leader_id: int
    leads: bool
    followers: Sequence[int] = ()

    @classmethod
    def of(cls, partition: PartitionImage, node_id: int) -> "Assignment":
        """The part of this broker in a partition that it has a replica of."""
        followers = [each for each in partition.isr if each != node_id]
        return cls(partition.leader_epoch, partition.leader, partition.leader == node_id, followers)

    def role_over(self, state: PartitionState) -> tuple[Leader | Follower, LogWrite | None]:
        """Take the role, and give what is to be stored of it with the first write."""
        if self.leads:
            return lead(state, self.leader_epoch, self.followers)
        return follow(state, self.leader_epoch, self.leader_id), None
