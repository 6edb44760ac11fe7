"""Nodes of two clusters with the same addresses: neither cluster accepts the other's metadata."""

from collections.abc import Awaitable, Callable, Mapping

import pytest
import trio

from odradek.gateway.errors import StartError, first_error
from odradek.gateway.testing.simulation import World, run_virtually
from odradek.gateway.testing.simulation.broker_host import BrokerHost
from odradek.partitions.metadata_log import METADATA_KEY


def settings(node: int, roles: str = "broker,controller") -> dict[str, str]:
    listeners = {"broker": f"PLAINTEXT://node-{node}:9092", "controller": f"CONTROLLER://node-{node}:9093"}
    return {
        "node.id": str(node),
        "process.roles": roles,
        "listeners": ",".join(listeners[role] for role in roles.split(",")),
        "controller.listener.names": "CONTROLLER",
    }


async def member(host: BrokerHost) -> str:
    """Wait until a node has a cluster id, and return it."""
    with trio.fail_after(60):
        while host.broker is None or not host.broker.services.metadata.image.cluster_id:  # noqa: ASYNC110
            await trio.sleep(0.1)
    return host.broker.services.metadata.image.cluster_id


def log_of(host: BrokerHost, world: World) -> list[bytes]:
    segments = world.disk(host.host).logs[METADATA_KEY].live.segments
    return [bytes(batch.data) for segment in segments for batch in segment.batches]


def play(seed: int, course: Callable[[World, trio.Nursery], Awaitable[None]]) -> None:
    async def main() -> None:
        world = World(seed)
        async with trio.open_nursery() as nursery:
            await course(world, nursery)
            nursery.cancel_scope.cancel()
        world.close()

    run_virtually(seed, main)


SMALL = {"metadata.log.max.record.bytes.between.snapshots": "300", "metadata.max.retention.bytes": "0"}


async def serve_or_be_refused(host: BrokerHost, seconds: float) -> None:
    """Run a node; it ends with a message if it detects that it belongs to another cluster."""
    refused = False
    try:
        async with trio.open_nursery() as nursery:
            host.start(nursery)
            await trio.sleep(seconds)
            await host.crash(power_cut=False)
    except* StartError:
        refused = True
    assert refused or not host.running


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("roles", ["broker,controller", "controller"])
@pytest.mark.parametrize("more", [{}, SMALL], ids=["log", "snapshots"])
def test_a_controller_that_has_lost_its_disk_and_founds_a_second_cluster_cuts_no_log_of_the_first(
    seed: int, roles: str, more: Mapping[str, str]
) -> None:
    alone = {"controller.quorum.bootstrap.servers": "node-1:9093"}
    both = {"controller.quorum.bootstrap.servers": "node-1:9093,node-2:9093"}

    async def course(world: World, nursery: trio.Nursery) -> None:
        founder = BrokerHost(world, "node-1", settings=settings(1) | alone | more)
        other = BrokerHost(world, "node-2", settings=settings(2, roles) | both | more)
        founder.start(nursery)
        other.start(nursery)
        first = await member(other)
        await trio.sleep(10)
        for host in (founder, other):
            await host.crash(power_cut=False)
        before = log_of(other, world)
        assert before
        world.disk("node-1").lose(lambda _key: False, lambda _name: False)
        founder.start(nursery)
        assert await member(founder) != first
        await trio.sleep(10)
        await founder.crash(power_cut=False)
        founder.start(nursery)  # which begins another epoch
        await member(founder)
        await serve_or_be_refused(other, 10)
        assert log_of(other, world) == before
        await founder.crash(power_cut=False)

    play(seed, course)


@pytest.mark.parametrize("seed", range(4))
def test_a_majority_that_has_lost_its_disks_cuts_no_log_of_the_cluster_before(seed: int) -> None:
    voters = {"controller.quorum.voters": ",".join(f"{node}@node-{node}:9093" for node in (1, 2, 3))}

    async def course(world: World, nursery: trio.Nursery) -> None:
        hosts = {node: BrokerHost(world, f"node-{node}", settings=settings(node) | voters) for node in (1, 2, 3)}
        for host in hosts.values():
            host.start(nursery)
        for host in hosts.values():
            await member(host)
        await trio.sleep(10)
        for host in hosts.values():
            await host.crash(power_cut=False)
        before = log_of(hosts[3], world)
        for node in (1, 2):
            world.disk(f"node-{node}").lose(lambda _key: False, lambda _name: False)
            hosts[node].start(nursery)
        await trio.sleep(0.05 * seed)
        await serve_or_be_refused(hosts[3], 10)
        assert log_of(hosts[3], world)[: len(before)] == before
        for host in hosts.values():
            await host.crash(power_cut=False)

    play(seed, course)


def test_a_broker_with_the_directory_of_another_cluster_is_refused_and_the_log_names_the_cause(
    caplog: pytest.LogCaptureFixture,
) -> None:
    servers = {"controller.quorum.bootstrap.servers": "node-1:9093"}

    async def course(world: World, nursery: trio.Nursery) -> None:
        controller = BrokerHost(world, "node-1", settings=settings(1, "controller") | servers)
        broker = BrokerHost(world, "node-2", settings=settings(2, "broker") | servers)
        controller.start(nursery)
        broker.start(nursery)
        first = await member(broker)
        for host in (controller, broker):
            await host.crash(power_cut=False)
        before = log_of(broker, world)
        world.disk("node-1").lose(lambda _key: False, lambda _name: False)
        controller.start(nursery)
        assert await member(controller) != first
        refusal = ""
        try:
            async with trio.open_nursery() as own:
                broker.start(own)
        except* StartError as errors:
            refusal = str(first_error(errors))
        assert "no controller of its cluster answers (controller.quorum.voters, " in refusal
        assert (
            f"the controller at node-1:9093 belongs to another cluster than the data of this node cluster_id={first}"
            in caplog.text
        )
        assert log_of(broker, world) == before
        await controller.crash(power_cut=False)

    play(1, course)
