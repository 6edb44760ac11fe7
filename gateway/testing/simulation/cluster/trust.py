"""The brokers that are trusted to have all committed records while faults end processes and disks are lost.

A broker that ends uncleanly leaves the ISR and the ELR when it registers again (KIP-966). When the last member has left
that way, Kafka elects the last known leader, which may be the broker whose disk was lost: then acknowledged records are
lost, as in Kafka. So while a disk is lost, one broker must not have ended uncleanly since all replicas were in sync.

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
        self._has_lost_disk = False

    def may_end_uncleanly(self, node: int) -> bool:
        """True if no disk is lost, or each partition of the broker keeps another trusted replica."""
        self._forget_what_is_repaired()
        return node not in self._brokers or not self._has_lost_disk or self._is_other_trusted(node)

    def ends_uncleanly(self, node: int) -> None:
        """Record that a broker ends without a controlled shutdown, or may do so from now on."""
        if node in self._brokers:
            self._unclean[node] = self._epoch_of(node)

    def may_lose_disk(self, node: int) -> bool:
        """True if all replicas are in sync, no other disk is lost, and another broker stays trusted."""
        self._forget_what_is_repaired()
        return self._invariants.in_sync() and not self._has_lost_disk and self._is_other_trusted(node)

    def will_lose_disk(self, node: int) -> None:
        """Record that a node ends, after which its disk is lost. Other faults may begin before the node has ended."""
        self.ends_uncleanly(node)
        self._has_lost_disk = True

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

    def _brokers_but(self, node: int) -> set[int]:
        """The other brokers that have not ended uncleanly."""
        return {each for each in self._brokers if each != node and each not in self._unclean}

    def _forget_what_is_repaired(self) -> None:
        """Trust all brokers again if every replica is in sync, and those that ended have registered again."""
        is_registered = all(self._epoch_of(node) != epoch for node, epoch in self._unclean.items())
        if is_registered and self._invariants.in_sync():
            self._unclean.clear()
            self._has_lost_disk = False

    def _epoch_of(self, node: int) -> int:
        image = self._invariants.image
        broker = None if image is None else image.brokers.get(node)
        return UNKNOWN_EPOCH if broker is None else broker.epoch
