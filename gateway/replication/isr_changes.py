"""Counts and logs changes of in-sync replicas.

A leader that proposes a change logs the reason (`leading.py`). If the controller itself removes a replica from the ISR,
because a broker is fenced or shuts down, the leader's broker gets that with the image: `note_removed` logs it, in one
line for each broker, since it may affect thousands of partitions at once.
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
"""The number of proposals made at once that have a log line each."""


class IsrChanges:
    """The number of proposals of this broker's leaders that came into force, by kind; `failed` were refused.

    Written on the Trio thread; any thread may read the counts.
    """

    __slots__ = ("_proposed", "expands", "failed", "shrinks")

    def __init__(self) -> None:
        self.shrinks = 0
        self.expands = 0
        self.failed = 0
        self._proposed: list[tuple[str, Sequence[object]]] = []

    def note(self, text: str, *args: object) -> bool:
        """Queue a log line about a proposal; True if the caller must schedule `report`."""
        self._proposed.append((text, args))
        return len(self._proposed) == 1

    def report(self) -> None:
        """Log the queued lines, up to a limit: a broker that returns joins thousands of ISRs at once."""
        lines, self._proposed = self._proposed, []
        for text, args in lines[:MAX_LINES]:
            log.info(text, *args)
        if len(lines) > MAX_LINES:
            log.info("in-sync replicas change of further partitions count=%d", len(lines) - MAX_LINES)

    def answered(self, proposal: IsrProposal, answer: IsrDecision | ErrorCode) -> None:
        """Count the controller's response to a proposal."""
        if not isinstance(answer, IsrDecision):
            self.failed += 1
        elif proposal.is_expansion:
            self.expands += 1
        else:
            self.shrinks += 1


def note_removed(delta: MetadataDelta, image: MetadataImage, node_id: int) -> None:
    """Log which brokers the controller has removed from the ISR of partitions that `node_id` leads, with the reason."""
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
    """The reason why the controller has removed a broker; None if the leader proposed it."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        return "not registered"
    if broker.fenced:
        return "fenced"
    if broker.in_controlled_shutdown:
        return "shutting down"
    return None if broker_id in partition.replicas else "reassigned"
