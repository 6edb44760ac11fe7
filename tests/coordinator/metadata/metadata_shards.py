"""A metadata shard under test: operations are run as the runtime runs them, and the log is kept."""

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any, TypeVar, cast
from uuid import UUID

from odradek.coordinator.contract import ShardRecord, Token
from odradek.coordinator.metadata.controller.brokers import BrokerRegistration, register_broker
from odradek.coordinator.metadata.controller.shard import MetadataShard, Operation
from odradek.coordinator.metadata.image.delta import MetadataDelta
from odradek.coordinator.metadata.image.image import ListenerImage, MetadataImage
from odradek.coordinator.metadata.image.replay import replay
from odradek.coordinator.metadata.settings import MetadataConfig
from odradek.wire.schema.schema import Message

NOW_MS = 1_700_000_000_000
TOKEN = Token(7)
EPOCH = 1

Q = TypeVar("Q")
R = TypeVar("R")


def uuids() -> Iterator[UUID]:
    """Sequential ids, so that tests can name them."""
    return (UUID(int=number) for number in count(1000))


def add(delta: MetadataDelta, record: Message) -> None:
    """Replays a record at the next offset of the delta."""
    replay(delta, record, delta.offset + 1, EPOCH)


class ShardUnderTest:
    """Runs operations, replays their records, and can restart from the log."""

    def __init__(self, static: Mapping[str, str] | None = None, node_ids: tuple[int, ...] = (1,)) -> None:
        self.config = MetadataConfig(node_ids[0], static or {})
        self.uuids = uuids()
        self.shard = MetadataShard(self.config, self.uuids)
        self.log: list[ShardRecord] = []
        for node_id in node_ids:
            self.register(node_id)

    @property
    def image(self) -> MetadataImage:
        return self.shard.image

    def register(self, node_id: int = 1, cluster_id: str = "a-cluster", rack: str | None = None) -> Any:
        listener = ListenerImage("PLAINTEXT", "127.0.0.1", 9092)
        registration = BrokerRegistration(node_id, UUID(int=node_id), cluster_id, [listener], rack)
        return self.run(register_broker, registration)

    def run(self, operation: Operation[Q, R], request: Q) -> R:
        """Runs one operation and returns its reply."""
        outcome = self.shard.decide(operation, request, len(self.log), TOKEN, NOW_MS)
        for offset, record in enumerate(outcome.records, len(self.log)):
            self.shard.replay(record, offset, EPOCH, NOW_MS)
        self.log += outcome.records
        (reply,) = outcome.replies
        assert reply.token == TOKEN
        return cast("R", reply.value)

    def replayed(self) -> MetadataImage:
        """The image after a restart, which has the written records only; live replay may use the decision's objects."""
        shard = MetadataShard(self.config, self.uuids)
        for offset, record in enumerate(self.log):
            shard.replay(ShardRecord(record.key, record.value), offset, EPOCH, NOW_MS)
        return shard.image
