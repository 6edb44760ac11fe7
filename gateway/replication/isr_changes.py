"""Changes of in-sync replicas as a broker counts and tells them.

A leader that proposes a change says why (`leading.py`). What the controller takes out of the ISR by itself, since a
broker is fenced or shuts down, a leader learns from the image: `note_removed` tells it, in one line for each broker,
for that may be thousands of partitions at once.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import Final

from odradek.coordinator.metadata.image.delta import MetadataDelta
from odradek.coordinator.metadata.image.image import MetadataImage, PartitionImage
from odradek.gateway.replication.strays import few
from odradek.partitions.in_sync import IsrDecision, IsrProposal
from odradek.wire.errors import ErrorCode

log = logging.getLogger(__name__)

MAX_LINES: Final = 20
"""How many proposals that are made at once have a line each in the log."""


class IsrChanges:
    """How many proposals of this broker's leaders came into force, by kind; `failed` were refused.

    Written on the Trio thread; any thread may read the counts.
    """

    __slots__ = ("_proposed", "expands", "failed", "shrinks")

    def __init__(self) -> None:
        self.shrinks = 0
        self.expands = 0
        self.failed = 0
        self._proposed: list[tuple[str, Sequence[object]]] = []

    def note(self, text: str, *args: object) -> bool:
        """Queue a log line about a proposal; True if the caller must schedule `tell`."""
        self._proposed.append((text, args))
        return len(self._proposed) == 1

    def tell(self) -> None:
        """Log what was noted since the last call: a broker that comes back joins thousands of ISRs at once."""
        lines, self._proposed = self._proposed, []
        for text, args in lines[:MAX_LINES]:
            log.info(text, *args)
        if len(lines) > MAX_LINES:
            log.info("in-sync replicas change of further partitions count=%d", len(lines) - MAX_LINES)

    def answered(self, proposal: IsrProposal, answer: IsrDecision | ErrorCode) -> None:
        """The controller has answered a proposal."""
        if not isinstance(answer, IsrDecision):
            self.failed += 1
        elif proposal.is_expansion:
            self.expands += 1
        else:
            self.shrinks += 1


def note_removed(delta: MetadataDelta, image: MetadataImage, node_id: int) -> None:
    """Log which brokers the controller has taken out of the ISR of partitions that `node_id` leads, and why."""
    removed: dict[tuple[int, str], list[str]] = {}
    for name, index, before, after in _led(delta, image, node_id):
        for broker_id in before.isr:
            why = None if broker_id in after.isr else _why(image, broker_id, after)
            if why is not None:
                removed.setdefault((broker_id, why), []).append(f"{name}-{index}")
    for (broker_id, why), names in removed.items():
        text = "in-sync replicas shrink replica=%d reason=%s partitions=%d names=%s%s"
        log.info(text, broker_id, why, *few(names))


def _led(
    delta: MetadataDelta, image: MetadataImage, node_id: int
) -> Iterator[tuple[str, int, PartitionImage, PartitionImage]]:
    for topic_id, indexes in delta.topics.changed.items():
        topic, earlier = image.topic_by_id(topic_id), delta.before.topic_by_id(topic_id)
        if topic is None or earlier is None:
            continue
        for index in indexes:
            after = topic.partitions[index]
            if after.leader == node_id and index < len(earlier.partitions):
                yield topic.name, index, earlier.partitions[index], after


def _why(image: MetadataImage, broker_id: int, partition: PartitionImage) -> str | None:
    """Why the controller has taken a broker out; None where the leader has proposed it."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        return "not registered"
    if broker.fenced:
        return "fenced"
    if broker.in_controlled_shutdown:
        return "shutting down"
    return None if broker_id in partition.replicas else "reassigned"
