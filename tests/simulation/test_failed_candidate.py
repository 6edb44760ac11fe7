"""Three nodes: the write of a voter's newest metadata records fails while the voter stands for election."""

from collections.abc import Callable
from typing import TypeVar

import outcome
import pytest
import trio
from sim_quorum import NODES, Cluster, play

from odradek.coordinator.quorum.values import State
from odradek.gateway.env.environment import Environment
from odradek.gateway.testing.simulation import NetworkFaults
from odradek.storage_backends.interface import StoreError

T = TypeVar("T")


class FailingWrites:
    """Commits of a node wait until `release` is set, and then fail; later ones work. `held` is their number."""

    def __init__(self, env: Environment) -> None:
        self.release = trio.Event()
        self.held = 0
        self._start = env.start_blocking
        env.start_blocking = self._start_blocking  # type: ignore[method-assign]

    def _start_blocking(self, nursery: trio.Nursery, call: Callable[[], T], deliver: Callable[..., None]) -> None:
        if self.release.is_set():
            self._start(nursery, call, deliver)
        else:
            self.held += 1
            nursery.start_soon(self._fail, deliver)

    async def _fail(self, deliver: Callable[..., None]) -> None:
        await self.release.wait()
        deliver(outcome.Error(StoreError("the disk fails")))


async def acknowledged(cluster: Cluster, topic: str) -> int:
    """Create a topic; returns the controller that answered, once all nodes have the topic."""
    while True:
        await trio.sleep(0.1)
        leader = next((node for node, broker in cluster.brokers().items() if broker.services.controller.epoch), None)
        if leader is not None and topic not in cluster.seen.answered:
            await cluster.create(cluster.brokers()[leader], topic)
        if leader is not None and topic in cluster.seen.answered and cluster.agree():
            return leader


async def fail_the_candidate(cluster: Cluster, nursery: trio.Nursery) -> None:
    first = await acknowledged(cluster, "first")
    await trio.sleep(2)
    second, candidate = (each for each in NODES if each != first)
    other, quorum = (cluster.brokers()[each].services.quorum for each in (second, candidate))
    writes = FailingWrites(cluster.brokers()[candidate].services.replicas.resources.env)
    with trio.fail_after(20):
        await cluster.create(cluster.brokers()[first], "second")
        while not writes.held:  # noqa: ASYNC110 - a change of the simulated state, of which nothing is notified
            await trio.sleep(0.001)
    assert "second" in cluster.seen.answered
    assert quorum.replica.log.durable_end_offset < quorum.replica.log.log_end_offset
    await cluster.hosts[first].crash(power_cut=True)
    cluster.world.network.faults = NetworkFaults(delay_ms=(10, 20))
    with trio.move_on_after(30):  # with the safety step it never stands
        while not (other.core.election.voted == quorum.core.me and quorum.core.state is State.CANDIDATE):  # noqa: ASYNC110
            await trio.sleep(0.001)
    writes.release.set()
    await trio.sleep(1)
    cluster.world.network.faults = NetworkFaults()
    await trio.sleep(5)
    cluster.hosts[first].start(nursery)
    await trio.sleep(20)


@pytest.mark.parametrize("seed", [2, 4, 5])
def test_an_acknowledged_topic_is_kept(seed: int) -> None:
    """The candidate was elected without the records that its Vote requests had claimed, and the others cut them."""

    async def scenario(cluster: Cluster, nursery: trio.Nursery) -> None:
        await fail_the_candidate(cluster, nursery)
        for broker in cluster.brokers().values():
            assert not cluster.seen.lacks(broker.services.metadata.image)

    play(seed, scenario)
