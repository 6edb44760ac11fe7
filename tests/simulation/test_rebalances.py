"""No live member is ever removed: not in concurrent rebalances, and not by a broker that was suspended itself.

`make torture` runs more seeds than the short list; `ODRADEK_SEEDS=1000` the seeds 0 to 999.
"""

import pytest
import trio
from sim_rebalances import (
    BROKER,
    SESSION_MS,
    SETTINGS,
    Book,
    Member,
    await_coordinator,
    described,
    simulate,
    stand_still,
)

from odradek.gateway.testing.simulation import World, run_virtually
from odradek.gateway.testing.simulation.broker_host import BrokerHost
from tests.long_form import seeds

SHORT, MANY = 15, 500
STALLS = range(6)
MEMBERS = 5


@pytest.mark.torture
@pytest.mark.parametrize("seed", seeds(range(SHORT), MANY))
def test_no_live_member_is_forgotten_while_others_come_and_go(seed):
    book, _ = simulate(seed)
    assert book.generations > 5


def test_a_seed_gives_its_trace_again():
    assert simulate(1)[1] == simulate(1)[1]


def stalled(seed, scene):
    """Run `scene(members)` with a broker, and return its result."""
    world, told = World(seed), []
    world.network.faults.delay_ms = (1.0, 2.0)

    async def main():
        host = BrokerHost(world, *BROKER, settings=SETTINGS)
        async with trio.open_nursery() as nursery:
            host.start(nursery)
            await host.ready()
            members = [Member(world, f"member-{number}", Book()) for number in range(MEMBERS)]
            await await_coordinator(members[0].client)
            told.append(await scene(members))
            for member in members:
                member.client.close()
            await host.stop()

    run_virtually(seed, main)
    return told[0]


async def settle(members):
    """Bring all members into one generation, each with its assignment."""

    async def enter(member):
        joined = None
        while joined is None:
            joined = await member.join()
        assert await member.sync(joined)

    async with trio.open_nursery() as nursery:
        for member in members:
            nursery.start_soon(enter, member)


async def heartbeats_lie_unread(members):
    """Every member sends a heartbeat; the broker is suspended for longer than a session before it reads them."""
    await settle(members)
    errors = []

    async def beat(member):
        errors.append(await member.heartbeat())

    async with trio.open_nursery() as nursery:
        for member in members:
            nursery.start_soon(beat, member)
        await sent(members)
        stand_still(SESSION_MS / 1000 + 1)
    return errors, await described(members[0].client)


async def sent(members):
    """Return when each member has sent a request that the broker has not read."""
    clients = [member.client for member in members]
    before = [client.sent_bytes for client in clients]
    while any(client.sent_bytes == old for client, old in zip(clients, before, strict=True)):
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("seed", STALLS)
def test_a_broker_that_stood_still_hears_the_heartbeats_that_came_in_time(seed):
    assert stalled(seed, heartbeats_lie_unread) == ([0] * MEMBERS, ("Stable", MEMBERS))


def test_without_a_last_word_live_members_would_be_given_up(monkeypatch):
    """Checks that the test above can fail."""
    monkeypatch.setattr("odradek.gateway.coordinators.host.DRAIN_TURNS", 0)
    assert any(stalled(seed, heartbeats_lie_unread)[1] != ("Stable", MEMBERS) for seed in STALLS)
