"""Counts clients' writes to, and reads from, each topic of this broker."""

from collections.abc import Iterable
from typing import NamedTuple


class TopicTraffic:
    """The counts of one topic since the broker started. Written on the Trio thread; any thread may read it."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "messages_in",
        "produces",
    )

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.produces = 0
        self.failed_produces = 0
        self.fetches = 0
        self.failed_fetches = 0

    def produced(self, messages: int, size_bytes: int) -> None:
        """Count one partition's batches of a request as appended."""
        self.produces += 1
        self.messages_in += messages
        self.bytes_in += size_bytes

    def refused(self) -> None:
        """Count one partition's batches of a request as refused."""
        self.produces += 1
        self.failed_produces += 1

    def add(self, other: "TopicTraffic") -> None:
        """Add the counts of another topic."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Counts(NamedTuple):
    """The counts of each topic by name, and the sums of the topics that were deleted."""

    topics: dict[str, TopicTraffic]
    deleted: TopicTraffic


class Traffic:
    """The traffic of all topics. `counts` is replaced when topics are deleted: read it once, from any thread.

    `replicated_in_bytes` were fetched from leaders, `replicated_out_bytes` sent to followers.
    """

    def __init__(self) -> None:
        self.replicated_in_bytes = 0
        self.replicated_out_bytes = 0
        self.counts = Counts({}, TopicTraffic())

    def of(self, topic: str) -> TopicTraffic:
        """The counts of a topic; created if there are none yet."""
        topics = self.counts.topics
        found = topics.get(topic)
        if found is None:
            found = topics[topic] = TopicTraffic()
        return found

    def forget(self, topics: Iterable[str]) -> None:
        """Remove the counts of deleted topics, and add them to the sums, so that totals do not go back."""
        left, deleted = dict(self.counts.topics), TopicTraffic()
        deleted.add(self.counts.deleted)
        for topic in topics:
            if (gone := left.pop(topic, None)) is not None:
                deleted.add(gone)
        self.counts = Counts(left, deleted)
