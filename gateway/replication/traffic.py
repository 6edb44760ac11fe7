"""Counts clients' writes to, and reads from, each topic of this broker."""


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


class Traffic:
    """The traffic of all topics, by name; deleted topics are removed.

    `replicated_in_bytes` were fetched from leaders, `replicated_out_bytes` sent to followers.
    """

    def __init__(self) -> None:
        self.replicated_in_bytes = 0
        self.replicated_out_bytes = 0
        self.topics: dict[str, TopicTraffic] = {}

    def of(self, topic: str) -> TopicTraffic:
        """The counts of a topic; created if there are none yet."""
        found = self.topics.get(topic)
        if found is None:
            found = self.topics[topic] = TopicTraffic()
        return found

    def forget(self, topic: str) -> None:
        """Remove the counts of a deleted topic."""
        self.topics.pop(topic, None)
