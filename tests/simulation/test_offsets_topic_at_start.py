"""A broker that has just started creates its offsets topic in limited time, also for many clients and on a slow disk.

The clients connect while the broker starts. Some create the topic by its name, as administrators do; some find their
groups' coordinators, which creates it too, and join; some list the end offsets of all its partitions, which opens 50
logs. Each is answered, in virtual time, within the duration of the disk accesses that may precede its own.
"""

import pytest
import trio

from odradek.gateway.testing.simulation import World, run_virtually
from odradek.gateway.testing.simulation.broker_host import BrokerHost
from odradek.gateway.testing.simulation.loads.client import SimClient, UnreachableError
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.metadata import MetadataRequest
from tests.long_form import rounds

BROKER, TOPIC, PARTITIONS = ("broker-1", 9092), "__consumer_offsets", 50
SETTINGS = {"odradek.storage": "memory://", "group.initial.rebalance.delay.ms": "0"}
SLOWEST_ACCESS_S = 1.0
ACCESSES = 40
"""The limit of disk accesses before an answer: those of other requests, and the request's own batch."""
LISTING = tuple(ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(PARTITIONS))
WAIT_LIMIT_S = 1000.0


async def reach(client: SimClient, request):
    """Send a request until the broker answers."""
    while True:
        try:
            return await client.call(request, WAIT_LIMIT_S)
        except UnreachableError:
            await trio.sleep(0.05)


async def create(client: SimClient) -> None:
    wanted = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
    [topic] = (await reach(client, CreateTopicsRequest(topics=(wanted,), timeout_ms=60_000))).topics
    assert topic.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


async def list_offsets(client: SimClient) -> None:
    request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name=TOPIC, partitions=LISTING),))
    await reach(client, request)


async def join(client: SimClient) -> None:
    found = await reach(client, FindCoordinatorRequest(key_type=0, coordinator_keys=(client.host,)))
    assert found.coordinators[0].error_code == 0
    protocols = (JoinGroupRequestProtocol(name="range", metadata=b""),)
    request = JoinGroupRequest(
        group_id=client.host,
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=protocols,
    )
    assert (await reach(client, request)).error_code == ErrorCode.MEMBER_ID_REQUIRED


def play(seed: int) -> dict[str, float]:
    """The seconds for which each client waited once the broker was ready."""
    world, ended, ready_at = World(seed), dict[str, float](), list[float]()
    world.network.faults.delay_ms = (0.1, 2.0)
    pace = world.disk(BROKER[0]).pace
    pace.busy_ms, pace.stall, pace.stall_ms = (1.0, 50.0), 0.3, SLOWEST_ACCESS_S * 1000

    async def one(name: str, scene) -> None:
        client = SimClient(world, name, BROKER)
        await trio.sleep(world.chance(name).uniform(0, 0.2))
        await scene(client)
        ended[name] = trio.current_time()
        client.close()

    async def main() -> None:
        host = BrokerHost(world, *BROKER, settings=SETTINGS)
        async with trio.open_nursery() as nursery:
            host.start(nursery)
            async with trio.open_nursery() as clients:
                clients.start_soon(note_ready, host)
                for number in range(4):
                    clients.start_soon(one, f"creates-{number}", create)
                    clients.start_soon(one, f"joins-{number}", join)
                    clients.start_soon(one, f"lists-{number}", list_offsets)
            check = SimClient(world, "check", BROKER)
            topics = (await reach(check, MetadataRequest(topics=None))).topics
            assert [(topic.name, len(topic.partitions)) for topic in topics] == [(TOPIC, PARTITIONS)]
            check.close()
            await host.stop()

    async def note_ready(host: BrokerHost) -> None:
        await host.ready()
        ready_at.append(trio.current_time())

    run_virtually(seed, main)
    return {name: time_s - ready_at[0] for name, time_s in ended.items()}


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(rounds(6, 300)))
def test_everyone_is_answered(seed):
    waited = play(seed)
    assert len(waited) == 12
    assert max(waited.values()) < ACCESSES * SLOWEST_ACCESS_S, waited
