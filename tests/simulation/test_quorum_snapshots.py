"""Snapshots on whole nodes: a node that is far behind, or has lost its disk, gets one; crashes during each step."""

from collections.abc import Awaitable, Callable

import pytest
import trio
from sim_quorum import NODES, Cluster

from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.coordinator.quorum.values import SnapshotId
from odradek.gateway.env.environment import Environment
from odradek.gateway.metadata.publisher import MetadataPublisher
from odradek.gateway.quorum.metadata_log import MetadataReplica
from odradek.gateway.quorum.snapshots import Snapshots
from odradek.gateway.testing.simulation import run_virtually
from odradek.gateway.testing.simulation.broker_host import BrokerHost
from odradek.storage_backends.interface import Store, StoreError

OBSERVER = 4
SMALL = {
    "metadata.log.max.record.bytes.between.snapshots": "2000",
    "metadata.max.retention.bytes": "1000",
    "controller.quorum.fetch.snapshot.max.bytes": "4000",
}
SETTINGS = {
    "node.id": str(OBSERVER),
    "process.roles": "broker",
    "listeners": f"PLAINTEXT://node-{OBSERVER}:9092",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": ",".join(f"{each}@node-{each}:9093" for each in NODES),
    **SMALL,
}


class Scene:
    """Three voters with a steady load of new topics, and an observer that may be offline."""

    def __init__(self, seed: int) -> None:
        self.cluster = Cluster(seed)
        self.observer = BrokerHost(self.cluster.world, f"node-{OBSERVER}", settings=SETTINGS)
        self.nursery: trio.Nursery

    def play(self, acts: Callable[[], Awaitable[None]]) -> None:
        async def main() -> None:
            async with trio.open_nursery() as self.nursery:
                for host in self.cluster.hosts.values():
                    host.start(self.nursery)
                self.nursery.start_soon(self.cluster.create_forever)
                self.nursery.start_soon(self.cluster.check_forever)
                await acts()
                for host in (*self.cluster.hosts.values(), self.observer):
                    await host.crash(power_cut=False)
                self.nursery.cancel_scope.cancel()

        run_virtually(self.cluster.world.seed, main)
        self.cluster.world.close()

    def log_of(self, host: BrokerHost) -> MetadataReplica:
        assert host.broker is not None
        return host.broker.services.quorum.replica

    def image_of(self, host: BrokerHost) -> MetadataImage | None:
        return None if host.broker is None else host.broker.services.metadata.image

    async def trimmed(self, offset: int) -> None:
        """Wait until the log start offset of every voter is above `offset`."""
        await self.until(
            lambda: all(
                host.broker is not None and self.log_of(host).state_or_last.log_start_offset > offset
                for host in self.cluster.hosts.values()
            )
        )

    async def until(self, holds: Callable[[], bool]) -> None:
        with trio.fail_after(60):
            while not holds():  # noqa: ASYNC110 - of virtual time
                await trio.sleep(0.05)

    async def observer_has_all(self) -> None:
        def has() -> bool:
            image = self.image_of(self.observer)
            return image is not None and not self.cluster.seen.lacks(image)

        await self.until(has)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("wiped", [False, True])
def test_a_node_that_is_far_behind_goes_on_behind_a_snapshot(seed: int, wiped: bool, monkeypatch: pytest.MonkeyPatch):
    scene = Scene(seed)
    kept: list[object] = []
    keep_staged = Snapshots.keep_staged

    async def keep(self: Snapshots, snapshot: object) -> None:
        kept.append(snapshot)
        await keep_staged(self, snapshot)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(Snapshots, "keep_staged", keep)

    async def acts() -> None:
        scene.observer.start(scene.nursery)
        await scene.until(lambda: scene.cluster.seen.tally["answered"] > 5)
        await scene.observer_has_all()
        image = scene.image_of(scene.observer)
        assert image is not None
        await scene.observer.crash(power_cut=True)
        if wiped:
            scene.cluster.world.disk(scene.observer.host).lose(lambda _key: False, lambda _name: False)
        await scene.trimmed(image.offset + 20)
        scene.observer.start(scene.nursery)
        await scene.observer_has_all()

    scene.play(acts)
    assert len(kept) == 1


def test_a_snapshot_that_cannot_be_read_at_first_is_read_again(monkeypatch: pytest.MonkeyPatch):
    """The log is restarted after it once it has been read; the node goes on meanwhile."""
    scene = Scene(3)
    failures: list[object] = []
    voters = Snapshots.voters

    async def read(self: Snapshots, snapshot: SnapshotId) -> object:
        if scene.observer.broker is not None and self is scene.log_of(scene.observer).snapshots and len(failures) < 3:
            failures.append(snapshot)
            raise StoreError("I/O error")
        return await voters(self, snapshot)

    monkeypatch.setattr(Snapshots, "voters", read)

    async def acts() -> None:
        scene.observer.start(scene.nursery)
        await scene.until(lambda: scene.cluster.seen.tally["answered"] > 5)
        await scene.observer_has_all()
        await cut_off_until_trimmed(scene)
        await scene.observer_has_all()
        assert scene.observer.alive

    scene.play(acts)
    assert len(failures) == 3


async def cut_off_until_trimmed(scene: Scene) -> int:
    """The observer is cut off until the voters have trimmed their logs beyond its own; returns the end of its image."""
    network = scene.cluster.world.network
    for host in scene.cluster.hosts.values():
        network.partition(host.host, scene.observer.host, both_ways=True)
    image = scene.image_of(scene.observer)
    assert image is not None
    await scene.trimmed(image.offset + 30)
    network.heal()
    return image.offset


def test_a_running_node_that_was_cut_off_publishes_what_differs(monkeypatch: pytest.MonkeyPatch):
    """Its image continues from the previous one; no change is published twice or left out."""
    scene = Scene(5)
    deltas: list[tuple[int, int]] = []
    publish = MetadataPublisher.publish

    def note(self: MetadataPublisher, delta: object) -> None:
        before = self.logged
        publish(self, delta)  # pyright: ignore[reportArgumentType]
        if scene.observer.broker is not None and self is scene.observer.broker.services.metadata:
            deltas.append((before.offset, self.logged.offset))

    monkeypatch.setattr(MetadataPublisher, "publish", note)
    cut = 0

    async def acts() -> None:
        nonlocal cut
        scene.observer.start(scene.nursery)
        await scene.until(lambda: scene.cluster.seen.tally["answered"] > 5)
        await scene.observer_has_all()
        cut = await cut_off_until_trimmed(scene)
        await scene.observer_has_all()
        assert scene.log_of(scene.observer).log.log_start_offset > cut

    scene.play(acts)
    assert [after for _, after in deltas[:-1]] == [before for before, _ in deltas[1:]]
    assert max(after - before for before, after in deltas if before >= cut) > 30


STEPS = {
    "written": (Snapshots, "write"),
    "named": (Snapshots, "_write_property"),  # private: there is no public step between the write and this
    "trimmed": (MetadataReplica, "move_log_start"),
    "downloaded": (Snapshots, "stage"),
    "kept": (Snapshots, "keep_staged"),
    "begun anew": (MetadataReplica, "restart_after"),
}


@pytest.mark.parametrize("power_cut", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_a_crash_in_the_middle_of_any_step_loses_nothing(
    step: str, power_cut: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The observer crashes shortly after the step has begun, three times, each with another delay."""
    scene = Scene(7)
    kind, name = STEPS[step]
    original, init = getattr(kind, name), Snapshots.__init__
    begun: list[trio.Event] = []
    host_of: dict[object, str] = {}

    def note_host(self: Snapshots, store: Store, env: Environment) -> None:
        host_of[self] = env.host_name()
        init(self, store, env)

    async def begins(self: object, *given: object) -> object:
        snapshots = self.snapshots if isinstance(self, MetadataReplica) else self
        if begun and host_of[snapshots] == scene.observer.host:
            begun[0].set()
        return await original(self, *given)

    monkeypatch.setattr(Snapshots, "__init__", note_host)
    monkeypatch.setattr(kind, name, begins)

    async def acts() -> None:
        scene.observer.start(scene.nursery)
        await scene.until(lambda: scene.cluster.seen.tally["answered"] > 5)
        await scene.observer_has_all()
        for after_s in (0.0, 0.0006, 0.002):
            image = scene.image_of(scene.observer)
            assert image is not None
            await scene.observer.crash(power_cut=power_cut)
            await scene.trimmed(image.offset + 20)
            begun[:] = [trio.Event()]
            scene.observer.start(scene.nursery)
            with trio.fail_after(60):
                await begun[0].wait()
            await trio.sleep(after_s)
            await scene.observer.crash(power_cut=power_cut)
            begun.clear()
            scene.observer.start(scene.nursery)
            await scene.observer_has_all()

    scene.play(acts)
