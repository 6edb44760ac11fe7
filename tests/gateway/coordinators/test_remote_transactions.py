"""Markers and verification requests to other brokers, sent to the production broker in the simulated network."""

from collections.abc import Awaitable, Callable

import pytest
import trio

from odradek.coordinator.contract import Producer
from odradek.coordinator.metadata.controller.create_topics import create_topics
from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.coordinator.transactions.add import ProducerIdentity
from odradek.gateway.config import load_config
from odradek.gateway.coordinators.brokers import OtherBrokers
from odradek.gateway.coordinators.markers import Marker
from odradek.gateway.coordinators.remote_transactions import RemoteMarkers, ask_coordinator
from odradek.gateway.errors import CoordinatorUnavailable
from odradek.gateway.peers import PeerCallError, PeerDisconnectedError
from odradek.gateway.testing.simulation import World, run_virtually
from odradek.gateway.testing.simulation.broker_host import BrokerHost
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.init_producer_id import InitProducerIdRequest

OTHER = 1
CONFIG = load_config(None, {"node.id": "2", "request.timeout.ms": "5000"}, {})


class Stage:
    """This node, and broker 1 on another host."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.world = World(3)
        self.world.network.faults.delay_ms = (1, 10)
        self.host = BrokerHost(self.world, "other")
        self.brokers = OtherBrokers(self.world.environment("here"), nursery, CONFIG, self.image, "transactions")
        self.markers = RemoteMarkers(self.brokers, nursery)

    @property
    def services(self):
        assert self.host.broker is not None
        return self.host.broker.services

    def image(self) -> MetadataImage:
        return self.services.metadata.image if self.host.broker is not None else MetadataImage()

    async def topic(self, name: str, partitions: int) -> None:
        wanted = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        await self.services.controller.decide(create_topics, CreateTopicsRequest(topics=(wanted,)))


def on_stage(play: Callable[[Stage], Awaitable[None]]) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            stage = Stage(nursery)
            stage.host.start(nursery)
            await stage.host.ready()
            await play(stage)
            nursery.cancel_scope.cancel()
        stage.world.close()

    run_virtually(3, main)


def marker(producer_id: int, epoch: int = 0, *, committed: bool = True) -> Marker:
    return Marker(Producer(producer_id, epoch), committed, 0, 0)


def test_markers_are_written_by_the_leader_and_each_gets_its_answer():
    async def play(stage: Stage) -> None:
        await stage.topic("t", 20)
        answers: dict[tuple[int, int], ErrorCode] = {}

        async def write(producer_id: int, index: int) -> None:
            answers[producer_id, index] = await stage.markers.write(OTHER, marker(producer_id), ("t", index))

        async with trio.open_nursery() as nursery:
            for producer_id in (7, 8):
                for index in range(21):
                    nursery.start_soon(write, producer_id, index)
        assert {key for key, error in answers.items() if error} == {(7, 20), (8, 20)}
        assert answers[7, 20] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for index in range(20):
            assert stage.services.replicas.find("t", index).log.log_end_offset == 2

    on_stage(play)


def test_an_epoch_that_has_passed_is_the_logs_refusal():
    async def play(stage: Stage) -> None:
        await stage.topic("t", 1)
        assert await stage.markers.write(OTHER, marker(7, 5), ("t", 0)) is ErrorCode.NONE
        assert await stage.markers.write(OTHER, marker(7, 4), ("t", 0)) is ErrorCode.INVALID_PRODUCER_EPOCH

    on_stage(play)


def test_a_broker_that_does_not_serve_has_no_answer_and_the_next_marker_is_sent():
    async def play(stage: Stage) -> None:
        await stage.topic("t", 1)
        with pytest.raises(PeerDisconnectedError, match="does not serve"):
            await stage.markers.write(9, marker(7), ("t", 0))
        await stage.markers.write(OTHER, marker(7), ("t", 0))
        image = stage.image()
        stage.image = lambda: image
        await stage.host.crash(power_cut=True)
        with pytest.raises(PeerCallError):
            await stage.brokers.call(OTHER, InitProducerIdRequest(), 4)
        with pytest.raises(PeerCallError):
            await stage.markers.write(OTHER, marker(7), ("t", 0))

    on_stage(play)


def test_a_coordinator_on_another_broker_adds_and_verifies_partitions():
    async def play(stage: Stage) -> None:
        await stage.topic("t", 2)
        await stage.services.transactions.ensure_topic()
        answer = await stage.services.transactions.init_producer_id(
            InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
        )
        producer = ProducerIdentity("x", answer.producer_id, answer.producer_epoch)

        async def ask(partitions: set[int], *, verify_only: bool):
            asked = {"t": frozenset(partitions)}
            return await ask_coordinator(stage.brokers, OTHER, producer, asked, verify_only=verify_only)

        assert (await ask({0}, verify_only=True))["t", 0] is not ErrorCode.NONE
        assert await ask({0}, verify_only=False) == {("t", 0): ErrorCode.NONE}
        assert await ask({0}, verify_only=True) == {("t", 0): ErrorCode.NONE}
        assert (await ask({1}, verify_only=True))["t", 1] is not ErrorCode.NONE

    on_stage(play)


def test_a_coordinator_that_does_not_answer_is_not_available():
    async def play(stage: Stage) -> None:
        producer = ProducerIdentity("x", 1, 0)
        with pytest.raises(CoordinatorUnavailable) as caught:
            await ask_coordinator(stage.brokers, 9, producer, {"t": frozenset({0})}, verify_only=True)
        assert caught.value.error is ErrorCode.COORDINATOR_NOT_AVAILABLE

    on_stage(play)
