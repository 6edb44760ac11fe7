"""Counts the leader elections that this node has seen in the published metadata."""

from odradek.coordinator.metadata.image.delta import MetadataDelta
from odradek.coordinator.metadata.image.image import NO_LEADER, MetadataImage, PartitionImage


class Elections:
    """Counts since the start. Written on the Trio thread; any thread may read it.

    `leaders` are all changes of a leader; `unclean` those to a replica that may lack committed records, `eligible`
    those to an eligible leader replica (KIP-966). Elections before the start count only if they are in the log after
    the loaded snapshot, and then at most one for each partition and published delta.
    """

    def __init__(self) -> None:
        self.leaders = 0
        self.unclean = 0
        self.eligible = 0

    def on_published(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Count the elections of a delta."""
        for topic_id, indexes in delta.topics.changed.items():
            before, after = delta.before.topic_by_id(topic_id), image.topic_by_id(topic_id)
            if before is None or after is None:
                continue
            for index in indexes:
                if index < len(before.partitions):
                    self._count(before.partitions[index], after.partitions[index])

    def _count(self, before: PartitionImage, after: PartitionImage) -> None:
        if after.leader in (before.leader, NO_LEADER):
            return
        self.leaders += 1
        if after.leader in before.isr:
            return
        if after.leader in before.elr:
            self.eligible += 1
        else:
            self.unclean += 1
