"""Three production nodes form a metadata quorum, with kills, power cuts, partitions and slow disks, by seed.

The leader creates topics, as for an admin client; every node publishes committed metadata. Invariants:

    one leader        no two nodes are active in one epoch
    nothing lost      a topic whose creation was answered is in every later image, on every node
    one history       images of the same offset are the same

    python tests/simulation/sim_quorum.py SEED
"""

import random
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, cast

import trio

from odradek.coordinator.metadata.controller.brokers import BrokerRegistration, register_broker
from odradek.coordinator.metadata.controller.create_topics import create_topics
from odradek.coordinator.metadata.image.image import ListenerImage, MetadataImage
from odradek.gateway.errors import CoordinatorUnavailable
from odradek.gateway.process import Broker
from odradek.gateway.testing.simulation import DiskPace, NetworkFaults, World, run_virtually
from odradek.gateway.testing.simulation.broker_host import BrokerHost
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

NODES: Final = (1, 2, 3)
FAULTS: Final = ("kill", "cut_power", "cut_off", "one_way", "slow_disk", "bad_network", "restart")


class Invariant(StrEnum):
    ONE_LEADER = "no two nodes are active in one epoch"
    KEPT = "what was answered is in every later image"
    ONE_HISTORY = "images of the same offset are the same"
    PROGRESS = "a healed quorum decides, and every node publishes it"
    NO_CRASH = "no node ends with an error of its own"


class Violation(Exception):  # noqa: N818 - of an invariant
    def __init__(self, invariant: Invariant, detail: str) -> None:
        super().__init__(f"{invariant}: {detail}")
        self.invariant = invariant


SMALL: Final = {
    "metadata.log.max.record.bytes.between.snapshots": "2000",
    "metadata.max.retention.bytes": "1000",
}
"""With these the log is deleted up to a new snapshot every few seconds."""


def settings_of(node: int) -> Mapping[str, str]:
    voters = ",".join(f"{each}@node-{each}:9093" for each in NODES)
    return {
        "node.id": str(node),
        "process.roles": "broker,controller",
        "listeners": f"PLAINTEXT://node-{node}:9092,CONTROLLER://node-{node}:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": voters,
        "offsets.topic.replication.factor": "1",
    }


@dataclass
class Seen:
    """What the checks have seen of all nodes."""

    active: dict[int, int] = field(default_factory=dict[int, int])
    topics_at: dict[int, tuple[str, ...]] = field(default_factory=dict[int, tuple[str, ...]])
    answered: dict[str, None] = field(default_factory=dict[str, None])
    tally: Counter[str] = field(default_factory=Counter[str])

    def look(self, node: int, broker: Broker) -> None:
        controller, image = broker.services.controller, broker.services.metadata.image
        if controller.epoch is not None and broker.services.quorum.active_epoch == controller.epoch:
            self.tally["leaders"] += controller.epoch not in self.active
            other = self.active.setdefault(controller.epoch, node)
            if other != node:
                raise Violation(Invariant.ONE_LEADER, f"nodes {other} and {node} in epoch {controller.epoch}")
        names = tuple(sorted(image.topics_by_name))
        if self.topics_at.setdefault(image.offset, names) != names:
            raise Violation(Invariant.ONE_HISTORY, f"offset {image.offset} at node {node}: {names}")

    def lacks(self, image: MetadataImage) -> list[str]:
        return [name for name in self.answered if image.topic(name) is None]


class Cluster:
    """The three machines, their faults, and the clients that create topics."""

    def __init__(self, seed: int, settings: Mapping[str, str] = SMALL) -> None:
        self.world = World(seed)
        self.chance: random.Random = self.world.chance("nemesis")
        self.hosts = {
            each: BrokerHost(self.world, f"node-{each}", settings={**settings_of(each), **settings}) for each in NODES
        }
        self.seen = Seen()
        self.ending: set[BrokerHost] = set()
        self.kinds = [each for each in FAULTS if self.chance.random() < 0.6] or ["kill"]

    def brokers(self) -> dict[int, Broker]:
        return {each: host.broker for each, host in self.hosts.items() if host.alive and host.broker is not None}

    async def run(self, seconds: float) -> None:
        async with trio.open_nursery() as nursery:
            for host in self.hosts.values():
                host.start(nursery)
            nursery.start_soon(self.check_forever)
            nursery.start_soon(self.create_forever)
            with trio.move_on_after(seconds):
                await self._break_forever(nursery)
            await self._heal(nursery)
            await self._check_healed()
            for host in self.hosts.values():
                await host.crash(power_cut=False)
            nursery.cancel_scope.cancel()

    async def check_forever(self) -> None:
        while True:
            for node, broker in self.brokers().items():
                self.seen.look(node, broker)
            await trio.sleep(0.01)

    async def create_forever(self) -> None:
        number = 0
        while True:
            await trio.sleep(self.chance.uniform(0.0, 0.4))
            for broker in list(self.brokers().values()):
                number += 1
                with trio.move_on_after(10):
                    await self.create(broker, f"topic-{number}")

    async def create(self, broker: Broker, name: str) -> None:
        """Create a topic at a broker if it is the active controller, as for a request of an admin client."""
        controller, node = broker.services.controller, broker.config.node_id
        if controller.epoch is None:
            return
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        try:
            own = broker.services.metadata.image.brokers.get(node)
            if own is None or own.fenced:
                await controller.decide(register_broker, _registration(broker, node))
            answer = await controller.decide(create_topics, CreateTopicsRequest(topics=(topic,)))
        except CoordinatorUnavailable:
            self.seen.tally["refused"] += 1
            return
        if answer.topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR:
            self.seen.tally["no broker"] += 1
            return
        assert not answer.topics[0].error_code, answer
        if broker.services.metadata.image.topic(name) is None:
            raise Violation(Invariant.KEPT, f"{name} is answered and not published at node {node}")
        self.seen.answered[name] = None
        self.seen.tally["answered"] += 1

    async def _break_forever(self, nursery: trio.Nursery) -> None:
        await trio.sleep(3)
        while True:
            kind, node = self.chance.choice(self.kinds), self.chance.choice(NODES)
            if self.chance.random() < 0.5:
                node = next((each for each, one in self.brokers().items() if one.services.controller.epoch), node)
            self.seen.tally[kind] += 1
            await self._break(kind, node, nursery)
            await trio.sleep(self.chance.uniform(0.2, 4))

    async def _break(self, kind: str, node: int, nursery: trio.Nursery) -> None:
        host, network = self.hosts[node], self.world.network
        lasts_s = self.chance.uniform(0.2, 5)
        others = [each.host for each in self.hosts.values() if each is not host]
        if kind in ("kill", "cut_power"):
            self.ending.add(host)
            await host.crash(power_cut=kind == "cut_power")
            await trio.sleep(lasts_s / 2)
            host.start(nursery)
            self.ending.discard(host)
        elif kind == "restart":
            if host.alive:
                self.ending.add(host)
                await host.stop()
                host.start(nursery)
                self.ending.discard(host)
        elif kind == "slow_disk":
            self.world.disk(host.host).pace = DiskPace(busy_ms=(0.1, 100.0), stall=0.1, stall_ms=3000.0)
            await trio.sleep(lasts_s)
            self.world.disk(host.host).pace = DiskPace()
        elif kind == "bad_network":
            network.faults = NetworkFaults(delay_ms=(0, 100), spike=0.05, reset=0.01, cut=0.01, partial=0.1)
            await trio.sleep(lasts_s)
            network.faults = NetworkFaults()
        else:
            for other in others if kind == "cut_off" else [self.chance.choice(others)]:
                network.partition(host.host, other, both_ways=kind == "cut_off")
            await trio.sleep(lasts_s)
            network.heal()

    async def _heal(self, nursery: trio.Nursery) -> None:
        self.world.network.faults = NetworkFaults()
        self.world.network.heal()
        for host in self.hosts.values():
            self.world.disk(host.host).pace = DiskPace()
            if host in self.ending:  # its fault was cancelled, maybe while the process was ending
                await host.crash(power_cut=False)
            if not host.running:
                host.start(nursery)

    async def _check_healed(self) -> None:
        before = self.seen.tally["answered"]
        with trio.move_on_after(60):
            while self.seen.tally["answered"] < before + 3 or not self.agree():  # noqa: ASYNC110 - of virtual time
                await trio.sleep(0.05)
            return
        shown = {
            node: (one.services.metadata.image.offset, len(self.seen.lacks(one.services.metadata.image)))
            for node, one in self.brokers().items()
        }
        kept = self.seen.tally["answered"] < before + 3
        raise Violation(Invariant.PROGRESS if kept else Invariant.KEPT, f"offset and topics that lack: {shown}")

    def agree(self) -> bool:
        brokers = self.brokers()
        return len(brokers) == len(NODES) and not any(
            self.seen.lacks(each.services.metadata.image) for each in brokers.values()
        )


def play(seed: int, scenario: Callable[[Cluster, trio.Nursery], Awaitable[None]]) -> None:
    """Play one scenario on three nodes without random faults; all of them must be alive at its end."""
    cluster = Cluster(seed, {})

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for host in cluster.hosts.values():
                host.start(nursery)
            await scenario(cluster, nursery)
            assert len(cluster.brokers()) == len(NODES)
            for host in cluster.hosts.values():
                await host.crash(power_cut=False)
            nursery.cancel_scope.cancel()

    try:
        run_virtually(seed, main)
    except BaseExceptionGroup as group:
        raise leaves(group)[0] from None
    finally:
        cluster.world.close()


def _registration(broker: Broker, node: int) -> BrokerRegistration:
    services = broker.services
    listeners = [ListenerImage(name, host, port) for name, (host, port) in services.advertised.items()]
    return BrokerRegistration(node, services.env.uuid(), services.cluster_id, listeners)


@dataclass
class Result:
    seed: int
    violation: Violation | None
    digest: str
    tally: Counter[str]

    def explain(self) -> str:
        again = f"python tests/simulation/sim_quorum.py {self.seed}"
        return f"seed {self.seed}: {self.violation} {dict(self.tally)}\nto see it again: {again}"


def leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """The exceptions in a group and in its nested groups."""
    found: list[BaseException] = []
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            found += leaves(cast("BaseExceptionGroup[BaseException]", each))
        else:
            found.append(each)
    return found


def simulate(seed: int, seconds: float = 20, settings: Mapping[str, str] = SMALL) -> Result:
    cluster = Cluster(seed, settings)
    violation: Violation | None = None
    try:
        run_virtually(seed, lambda: cluster.run(seconds))
    except* Violation as group:
        violation = next(each for each in leaves(group) if isinstance(each, Violation))
    except* Exception as group:  # noqa: BLE001 - told as what it is
        violation = violation or Violation(Invariant.NO_CRASH, repr(leaves(group)[0]))
    finally:
        cluster.world.close()
    return Result(seed, violation, cluster.world.trace.digest, cluster.seen.tally)


if __name__ == "__main__":
    shown = simulate(int(sys.argv[1]))
    print(shown.explain())
    print(shown.digest)
