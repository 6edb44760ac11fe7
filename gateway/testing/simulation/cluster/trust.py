"""The brokers that are trusted to have all committed records while faults end processes and disks are lost.

A broker that ends uncleanly leaves the ISR and the ELR when it registers again (KIP-966). When the last member has left
that way, Kafka elects the last known leader, which may be the broker whose disk was lost: then acknowledged records are
lost, as in Kafka. So while a disk is lost, one broker must not have ended uncleanly since all replicas were in sync.

A trusted broker can be fenced, too. It then leaves the ISR, and is not eligible either while enough others remain in
it; until the broker without its disk has registered again, it is one of these. So all other replicas of its partitions
must be trusted when the disk is lost, and none of them ends uncleanly before that registration.

This applies to each partition: one of its replicas must stay trusted. A replica that a reassignment is adding does not
count, since it may lack committed records.
"""

from collections.abc import Sequence

from odradek.gateway.testing.simulation.cluster.invariants import Invariants

UNKNOWN_EPOCH = -1


class TrustedBrokers:
    """The brokers that have not ended uncleanly since all replicas were in sync. `brokers` are the ids of all."""

    def __init__(self, invariants: Invariants, brokers: Sequence[int]) -> None:
        self._invariants = invariants
        self._brokers = brokers
        self._unclean: dict[int, int] = {}  # the epoch of the registration under which the broker ended
        self._lost: tuple[int, int] | None = None  # the broker without its disk, and the epoch that it then had

    def may_end_uncleanly(self, node: int) -> bool:
        """True unless a disk is lost, and partitions depend on this broker until that is repaired."""
        self._forget_what_is_repaired()
        if node not in self._brokers or self._lost is None:
            return True
        lost, epoch = self._lost
        if node != lost and self._epoch_of(lost) == epoch and self._share_a_partition(node, lost):
            return False
        return self._is_other_trusted(node)

    def ends_uncleanly(self, node: int) -> None:
        """Record that a broker ends without a controlled shutdown, or may do so from now on."""
        if node in self._brokers:
            self._unclean[node] = self._epoch_of(node)

    def has_not_ended(self, node: int) -> None:
        """Trust a broker again that might have ended, and has not."""
        self._unclean.pop(node, None)

    def trusts(self, node: int) -> bool:
        """True if a broker has not ended uncleanly, and cannot have."""
        return node not in self._unclean

    def may_lose_disk(self, node: int) -> bool:
        """True if all replicas are in sync, no other disk is lost, and all other replicas are trusted."""
        self._forget_what_is_repaired()
        if not self._invariants.in_sync() or self._lost is not None:
            return False
        return self._is_other_trusted(node) and not any(
            self._share_a_partition(node, each) for each in self._unclean if each != node
        )

    def will_lose_disk(self, node: int) -> None:
        """Record that a node ends, after which its disk is lost. Other faults may begin before the node has ended."""
        self.ends_uncleanly(node)
        self._lost = node, self._epoch_of(node)

    def loses_disk(self, node: int) -> None:
        """Record that the node's disk is lost now. A controller has no replicas, so it is not added to `lost`."""
        if node in self._brokers:
            self._invariants.lost.add(node)

    def _is_other_trusted(self, node: int) -> bool:
        others = self._brokers_but(node)
        return bool(others) and all(
            node not in part.replicas
            or any(each in others and each not in part.adding_replicas for each in part.replicas)
            for part in self._invariants.partitions()
        )

    def _share_a_partition(self, one: int, other: int) -> bool:
        return any({one, other} <= set(part.replicas) for part in self._invariants.partitions())

    def _brokers_but(self, node: int) -> set[int]:
        """The other brokers that have not ended uncleanly."""
        return {each for each in self._brokers if each != node and each not in self._unclean}

    def _forget_what_is_repaired(self) -> None:
        """Trust all brokers again if every replica is in sync, and those that ended have registered again."""
        is_registered = all(self._epoch_of(node) != epoch for node, epoch in self._unclean.items())
        if is_registered and self._invariants.in_sync():
            self._unclean.clear()
            self._lost = None

    def _epoch_of(self, node: int) -> int:
        image = self._invariants.image
        broker = None if image is None else image.brokers.get(node)
        return UNKNOWN_EPOCH if broker is None else broker.epoch
