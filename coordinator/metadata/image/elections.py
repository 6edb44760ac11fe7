"""Counts of leader elections by the records that report them, as in Kafka's metrics."""

from odradek.coordinator.metadata.image.image import RECOVERING, PartitionImage
from odradek.wire.stored.metadata_records import PartitionChangeRecord
from odradek.wire.values import mutable


@mutable
class ElectionCounts:
    """Counts of elections. In a delta, those of its records, of which a difference of images has none.

    `leaders` are all changes of a leader to another broker; `unclean` those to a replica that may lack committed
    records (its record begins RECOVERING), `eligible` those to an eligible leader replica (KIP-966).
    """

    leaders: int = 0
    unclean: int = 0
    eligible: int = 0

    def count(self, before: PartitionImage, record: PartitionChangeRecord) -> None:
        """Count a record that changes `before`."""
        self.leaders += record.leader >= 0 and record.leader != before.leader
        self.unclean += record.leader_recovery_state == RECOVERING
        self.eligible += record.leader in before.elr

    def add(self, others: "ElectionCounts") -> None:
        """Add the counts of another object."""
        self.leaders += others.leaders
        self.unclean += others.unclean
        self.eligible += others.eligible
