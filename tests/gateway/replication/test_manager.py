"""The fetchers of a broker, by its images and at its end."""

import trio
from role_fakes import NODE, OTHER, TOPIC_ID, Inline, replicas_over
from trio.testing import wait_all_tasks_blocked

from odradek.coordinator.metadata.image.delta import MetadataDelta
from odradek.coordinator.metadata.image.image import (
    BrokerImage,
    ListenerImage,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from odradek.gateway.config import load_config
from odradek.gateway.replication.manager import ReplicationManager
from odradek.storage_backends.memory import MemoryStore
from odradek.storage_backends.memory.medium import MemoryMedium
from odradek.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse


class Unreachable(Inline):
    """No other broker can be reached; `dialled` has the attempts."""

    def __init__(self) -> None:
        super().__init__()
        self.dialled: list[tuple[str, int]] = []

    async def dial(self, host: str, port: int):
        self.dialled.append((host, port))
        raise OSError("unreachable")


async def refuse(_request: AlterPartitionRequest) -> AlterPartitionResponse:
    raise AssertionError("nothing is proposed")


class Stage:
    """A broker's replicas, and the manager that fetches them."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.env, self.image = Unreachable(), MetadataImage()
        self.config = load_config(overrides={"node.id": str(NODE)}, environ={})
        self.replicas = replicas_over(MemoryStore(MemoryMedium()), nursery, self.env)
        self.manager = ReplicationManager(self.env, nursery, lambda: self.config, lambda: self.image)
        self.manager.start(self.replicas, refuse)

    async def follow(self, epoch: int) -> list[tuple[str, int]]:
        """Publishes an image in which the other broker leads in `epoch`; returns the dials that follow."""
        delta = MetadataDelta(self.image)
        if self.image.topic("t") is None:
            delta.topics.create(TopicImage("t", TOPIC_ID, ()))
        for number in (NODE, OTHER):
            listeners = {"PLAINTEXT": ListenerImage("PLAINTEXT", f"host-{number}", 9092)}
            delta.brokers.set(number, BrokerImage(number, 0, TOPIC_ID, listeners))
        delta.topics.set_partition(TOPIC_ID, 0, PartitionImage((1, 2), (1, 2), OTHER, epoch, epoch))
        delta.advance(delta.offset + 1, 0)
        self.image = delta.apply()
        self.env.dialled.clear()
        self.replicas.on_published(delta, self.image)
        self.manager.on_published(delta, self.image)
        await wait_all_tasks_blocked()
        return list(self.env.dialled)


async def test_a_broker_that_stops_fetches_no_more(nursery: trio.Nursery) -> None:
    stage = Stage(nursery)
    assert await stage.follow(0) == [("host-2", 9092)]
    stage.manager.stop()
    assert await stage.follow(1) == []
