"""A metadata shard in a test: operations are run as the runtime runs them, and the log is kept."""

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any
from uuid import UUID

from odradek.coordinator.contract import Outcome, ShardRecord, Token
from odradek.coordinator.metadata.controller.brokers import BrokerRegistration
from odradek.coordinator.metadata.controller.shard import MetadataShard
from odradek.coordinator.metadata.image.image import ListenerImage, MetadataImage
from odradek.coordinator.metadata.settings import MetadataConfig

NOW_MS = 1_700_000_000_000
TOKEN = Token(7)


def uuids() -> Iterator[UUID]:
    """Ids in order, so that tests can name them."""
    return (UUID(int=number) for number in count(1000))


class ShardUnderTest:
    """Runs operations, replays what they record, and can start anew from the log."""

    def __init__(self, static: Mapping[str, str] | None = None, node_ids: tuple[int, ...] = (1,)) -> None:
        self.config = MetadataConfig(node_ids[0], static or {})
        self.shard = MetadataShard(self.config)
        self.log: list[ShardRecord] = []
        self.uuids = uuids()
        for node_id in node_ids:
            self.register(node_id)

    @property
    def image(self) -> MetadataImage:
        return self.shard.image

    def register(self, node_id: int = 1, cluster_id: str = "a-cluster", rack: str | None = None) -> Any:
        listener = ListenerImage("PLAINTEXT", "127.0.0.1", 9092)
        registration = BrokerRegistration(node_id, UUID(int=node_id), [listener], rack)
        return self.run(lambda shard: shard.register(registration, TOKEN, NOW_MS, cluster_id=cluster_id))

    def run(self, operation: Callable[[MetadataShard], Outcome]) -> Any:
        """Run one operation and return its reply."""
        outcome = operation(self.shard)
        for record in outcome.records:
            self.shard.replay(record, NOW_MS)
        self.log += outcome.records
        (reply,) = outcome.replies
        assert reply.token == TOKEN
        return reply.value

    def replayed(self) -> MetadataImage:
        """The image that a restart would see: of what was written, where live replay takes what was just decided."""
        shard = MetadataShard(self.config)
        for record in self.log:
            shard.replay(ShardRecord(record.key, record.value), NOW_MS)
        return shard.image
