"""Three nodes: a controller loses its leadership while it loads, and the load ends when it is a follower."""

from collections.abc import Callable
from typing import Any

import pytest
import trio
from sim_quorum import NODES, Cluster, play

from odradek.coordinator.quorum.values import State
from odradek.gateway.testing.simulation import NetworkFaults


async def until(condition: Callable[[], object]) -> None:
    with trio.fail_after(60):
        while not condition():  # noqa: ASYNC110 - a change of the simulated state, of which nothing is notified
            await trio.sleep(0.001)


class SlowLoads:
    """Holds the reads of loading controllers until `release` is set; `held` are their nodes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.release = trio.Event()
        self.held: list[int] = []

    def hold(self, node: int) -> None:
        services = self._cluster.brokers()[node].services
        quorum, replica, controller = services.quorum, services.quorum.replica, services.controller
        read = replica.read

        async def slow_read(*args: Any) -> Any:
            is_loading = quorum.core.state is State.LEADER and controller.epoch is None
            if is_loading and not self.release.is_set():
                self.held.append(node)
                await self.release.wait()
            return await read(*args)

        replica.read = slow_read  # type: ignore[method-assign]

    def let(self, node: int) -> None:
        del self._cluster.brokers()[node].services.quorum.replica.read


def active(cluster: Cluster) -> int | None:
    return next((node for node, broker in cluster.brokers().items() if broker.services.controller.epoch), None)


async def lose_the_leadership(cluster: Cluster, nursery: trio.Nursery) -> None:
    await until(lambda: active(cluster))
    nursery.start_soon(cluster.create_forever)
    answered = cluster.seen.tally
    await until(lambda: answered["answered"] > 3 and cluster.agree())
    first = active(cluster)
    assert first is not None
    loads = SlowLoads(cluster)
    for node in NODES:
        if node != first:
            loads.hold(node)
    await cluster.hosts[first].crash(power_cut=False)
    await until(lambda: loads.held)
    loading = loads.held[0]
    cluster.hosts[first].start(nursery)
    for node in NODES:
        if node != loading:
            cluster.world.network.partition(cluster.hosts[loading].host, cluster.hosts[node].host, both_ways=True)
        if node not in (loading, first):
            loads.let(node)
    quorum = cluster.brokers()[loading].services.quorum
    await until(lambda: active(cluster) not in (None, loading))
    cluster.world.network.heal()
    await until(lambda: quorum.core.state is State.FOLLOWER)
    before = answered["answered"]
    await until(lambda: answered["answered"] > before + 3)
    cluster.world.network.faults = NetworkFaults(delay_ms=(10, 20))
    await until(lambda: quorum.replica.log.high_watermark < quorum.replica.log.log_end_offset)
    loads.release.set()
    await trio.sleep(10)
    cluster.world.network.faults = NetworkFaults()
    await trio.sleep(5)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_follower_does_not_publish_what_it_has_loaded_as_the_controller(seed: int) -> None:
    """It published a delta to an image that was no longer its last one, and ended."""
    play(seed, lose_the_leadership)
