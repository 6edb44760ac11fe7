"""A peer calls the production broker, over TCP and in the simulated network with a broker that is restarted."""

import pytest
import trio

from odradek.gateway.config import load_config
from odradek.gateway.env.environment import ProductionEnvironment
from odradek.gateway.peers import PeerCallError, PeerDisconnectedError
from odradek.gateway.peers.peer import Peer
from odradek.gateway.process import open_broker
from odradek.gateway.testing.simulation import World, run_virtually
from odradek.gateway.testing.simulation.broker_host import BrokerHost
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

TIMEOUT_MS = 30_000


async def create(peer: Peer, name: str) -> int:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    response = await peer.call(CreateTopicsRequest(topics=(topic,)), 7, TIMEOUT_MS)
    assert isinstance(response, CreateTopicsResponse)
    return response.topics[0].error_code


async def partitions(peer: Peer, name: str) -> int:
    request = MetadataRequest(topics=(MetadataRequestTopic(name=name),), allow_auto_topic_creation=False)
    response = await peer.call(request, 12, TIMEOUT_MS)
    assert isinstance(response, MetadataResponse)
    return len(response.topics[0].partitions)


async def ask_for_ever(peer: Peer) -> None:
    while True:
        await partitions(peer, "one")


async def test_a_broker_over_tcp():
    env = ProductionEnvironment(threads=4)
    settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "odradek.storage": "memory://"}
    async with open_broker(load_config(overrides=settings, environ={}), env) as broker, trio.open_nursery() as nursery:
        nursery.start_soon(broker.serve)
        peer = Peer(env, nursery, 1, broker.address, "test")
        assert await create(peer, "one") == 0
        found: list[int] = []

        async def ask() -> None:
            found.append(await partitions(peer, "one"))

        async with trio.open_nursery() as asking:
            for _ in range(100):
                asking.start_soon(ask)
        assert found == [1] * 100
        broker.stop()
        with trio.fail_after(60), pytest.raises(PeerDisconnectedError):
            await ask_for_ever(peer)  # requests before the end are answered
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("power_cut", [False, True])
def test_a_simulated_broker_that_is_killed_and_started_again(seed, power_cut):
    async def main() -> None:
        world = World(seed)
        world.network.faults.delay_ms = (0, 20)
        async with trio.open_nursery() as nursery:
            host = BrokerHost(world, "server")
            host.start(nursery)
            await host.ready()
            peer = Peer(world.environment("here"), nursery, 1, ("server", 9092), "test")
            assert await create(peer, "one") == 0
            await host.crash(power_cut=power_cut)
            with pytest.raises(PeerCallError):
                await partitions(peer, "one")
            host.start(nursery)
            await host.ready()
            assert await answered(peer) == 1
            nursery.cancel_scope.cancel()
        world.close()

    async def answered(peer: Peer) -> int:
        while True:
            try:
                return await partitions(peer, "one")
            except PeerCallError:
                continue

    run_virtually(seed, main)
