"""The faults of a simulated cluster: the seed decides their mix, their times and their durations.

Faults may overlap. Three limits exclude faults under which Kafka does not keep its guarantees either:

- A disk is lost only while every replica is in sync.
- Until all replicas are in sync again, no other disk is lost, and at least one broker does not end uncleanly
  (`trust.py`).
- A voter that stays a voter loses only the logs of partitions, as if `metadata.log.dir` were on another disk: a voter
  that has lost its votes may elect a second leader.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import trio

from odradek.gateway.lifecycle.clean_end import PROPERTY as CLEAN_END
from odradek.gateway.testing.simulation.broker_host import BrokerHost
from odradek.gateway.testing.simulation.cluster.replica_changes import ReplicaChanges
from odradek.gateway.testing.simulation.cluster.trust import TrustedBrokers
from odradek.gateway.testing.simulation.cluster.voters import VoterChanges
from odradek.gateway.testing.simulation.disk import DiskPace
from odradek.gateway.testing.simulation.environment import World
from odradek.partitions.metadata_log import METADATA_KEY, snapshot_of
from odradek.partitions.model import PartitionKey

FAULTS: Final[Mapping[str, str]] = {
    "kill": "a process dies and is started again",
    "power": "a machine loses power, and what was not synced",
    "stop": "a process is stopped in order and started again",
    "pause": "a process is suspended, as by SIGSTOP",
    "partition": "a node is cut off from the others, both ways",
    "one-way": "one direction is cut, between a node and one of the others or all of them",
    "loss": "connections break, also within a message",
    "delay": "messages are delayed, each by a different time",
    "slow-link": "one direction between two nodes is slow",
    "slow-disk": "a disk is slow, and stalls at times",
    "bad-disk": "a disk refuses writes and reads, or is full",
    "wipe": "a disk comes back empty",
    "skew": "a clock is set",
    "voters": "voters of the metadata quorum are added, removed, moved and replaced",
    "reassign": "partitions are reassigned, and some reassignments are cancelled",
    "elect": "leaders are elected by request",
}
"""The kinds of faults by name."""


def mix_of(world: World, wanted: Sequence[str] | None = None) -> tuple[str, ...]:
    """All kinds in `wanted`, in the order of `FAULTS`; if it is None, the kinds that the seed of `world` chooses."""
    chance = world.chance("mix")
    chosen = [kind for kind in FAULTS if chance.random() < 0.4]
    if wanted is not None:
        return tuple(kind for kind in FAULTS if kind in wanted)
    return tuple(chosen) or ("kill", "partition")


def _is_metadata(key: PartitionKey) -> bool:
    """True for the metadata log and its snapshots."""
    return key == METADATA_KEY or snapshot_of(key) is not None


class Faults:
    """Causes faults for some time, then repairs everything.

    `hosts` are by node id; `clients` are the names of clients' hosts. `leaders()` returns the nodes that lead a
    partition or the quorum, which are chosen more often; `trusted` decides which nodes may end uncleanly and lose
    their disks. `replicas` requests reassignments and elections; `changes` is None if the voters are fixed.
    """

    def __init__(
        self,
        world: World,
        hosts: Mapping[int, BrokerHost],
        clients: Sequence[str],
        voters: Sequence[int],
        kinds: Sequence[str],
        leaders: Callable[[], Sequence[int]],
        trusted: TrustedBrokers,
        replicas: ReplicaChanges,
        changes: VoterChanges | None = None,
    ) -> None:
        self.kinds = kinds
        self.done: Counter[str] = Counter()
        self._world = world
        self._hosts = hosts
        self._clients = clients
        self._voters = voters
        self._leaders = leaders
        self._trusted = trusted
        self._replicas = replicas
        self._changes = changes
        self._ending: dict[BrokerHost, None] = {}
        self._chance = world.chance("faults")
        self._harm: dict[str, Callable[[BrokerHost], Awaitable[None]]] = {
            "kill": self._kill,
            "power": self._power,
            "stop": self._stop,
            "pause": self._pause,
            "partition": self._partition,
            "one-way": self._one_way,
            "loss": self._loss,
            "delay": self._delay,
            "slow-link": self._slow_link,
            "slow-disk": self._slow_disk,
            "bad-disk": self._bad_disk,
            "wipe": self._wipe,
            "skew": self._skew,
            "voters": self._change_voters,
            "reassign": self._reassign,
            "elect": self._elect,
        }
        self._weights = [self._chance.choice((1, 2, 4)) for _ in kinds]
        self._gap_s = self._chance.choice((1.0, 3.0, 8.0))
        self._calm_ms = (0.1, self._chance.choice((1.0, 5.0, 30.0)))
        world.network.faults.delay_ms = self._calm_ms
        world.network.faults.partial = self._chance.choice((0.0, 0.3))
        for host in hosts.values():
            world.disk(host.host).pace = self._pace()

    def _pace(self) -> DiskPace:
        return DiskPace(busy_ms=(0.1, self._chance.choice((1.0, 5.0))))

    async def run(self, nursery: trio.Nursery, until_s: float) -> None:
        """Cause faults until `until_s`, then repair everything, and start nodes that are down in `nursery`."""
        async with trio.open_nursery() as harms:
            while trio.current_time() < until_s and self.kinds:
                await trio.sleep(self._chance.uniform(0.1, 2 * self._gap_s))
                [kind] = self._chance.choices(self.kinds, self._weights)
                harms.start_soon(self._do, kind, nursery)
            await trio.sleep(max(until_s - trio.current_time(), 0))
            harms.cancel_scope.cancel()
        await self._repair(nursery)

    async def _do(self, kind: str, nursery: trio.Nursery) -> None:
        host = self._hosts[self._chance.choice(self._targets())]
        self.done[kind] += 1
        self._nursery = nursery
        await self._harm[kind](host)

    def _targets(self) -> Sequence[int]:
        leaders = list(self._leaders())
        return leaders if leaders and self._chance.random() < 0.5 else list(self._hosts)

    async def _repair(self, nursery: trio.Nursery) -> None:
        network = self._world.network
        network.heal()
        network.slow_links.clear()
        network.faults.delay_ms = (0.1, 1.0)
        network.faults.reset = network.faults.cut = network.faults.spike = 0.0
        for host in self._hosts.values():
            host.pause.end()
            disk = self._world.disk(host.host)
            disk.repair()
            disk.pace = DiskPace()
            if host in self._ending:  # its fault was cancelled, maybe while the process was ending
                await host.crash(power_cut=False)
            if not host.running:
                host.start(nursery)

    def _lasting_s(self, longest: float = 12.0) -> float:
        """The duration of a fault, often much shorter than `longest`."""
        return self._chance.choice((0.1, 0.3, 1.0)) * longest * self._chance.random()

    # Processes

    async def _down(self, host: BrokerHost) -> None:
        await trio.sleep(self._lasting_s())
        if not host.running:
            host.start(self._nursery)
            self._ending.pop(host, None)  # if it runs, another fault started it, and a third may be ending it

    def _may_end(self, host: BrokerHost, kind: str) -> bool:
        """True if a host may end uncleanly now, which is then recorded; else the fault is not counted as done."""
        node = self._node_of(host)
        if not self._trusted.may_end_uncleanly(node):
            self.done[kind] -= 1
            return False
        self._trusted.ends_uncleanly(node)
        return True

    def _node_of(self, host: BrokerHost) -> int:
        return next(node for node, each in self._hosts.items() if each is host)

    async def _kill(self, host: BrokerHost) -> None:
        if not self._may_end(host, "kill"):
            return
        self._ending[host] = None
        await host.crash(power_cut=False)
        await self._down(host)

    async def _power(self, host: BrokerHost) -> None:
        hosts = list(self._hosts.values()) if self._chance.random() < 0.1 else [host]
        self.done["power"] += len(hosts) - 1
        hosts = [each for each in hosts if self._may_end(each, "power")]
        self._ending.update(dict.fromkeys(hosts))
        for each in hosts:
            await each.crash(power_cut=True)
        for each in hosts:
            await self._down(each)

    async def _stop(self, host: BrokerHost) -> None:
        if not host.alive or host.pause.is_paused or not self._may_end(host, "stop"):
            return
        self._ending[host] = None
        with trio.move_on_after(self._chance.choice((0.01, 5, 60))):
            await host.stop()
        await host.crash(power_cut=False)
        await self._down(host)

    async def _pause(self, host: BrokerHost) -> None:
        if not host.alive:
            return
        host.pause.begin()
        try:
            await trio.sleep(self._lasting_s(20.0))
        finally:
            host.pause.end()

    async def _wipe(self, host: BrokerHost) -> None:
        node = self._node_of(host)
        if not host.alive or not self._trusted.may_lose_disk(node):
            self.done["wipe"] -= 1
            return
        votes = node in self._voters and (self._changes is None or not self._changes.lose(node))
        self._ending[host] = None
        self._trusted.will_lose_disk(node)
        await host.crash(power_cut=True)
        self._world.record(host.host, "disk lost" if votes else "disk lost with the metadata log")
        self._trusted.loses_disk(node)
        disk = self._world.disk(host.host)
        disk.lose(lambda key: votes and _is_metadata(key), lambda name: votes and name != CLEAN_END)
        await self._down(host)

    async def _skew(self, host: BrokerHost) -> None:
        await trio.lowlevel.checkpoint()
        host.skew_ms = self._chance.choice((-60_000, -1000, 0, 1000, 60_000))

    async def _change_voters(self, host: BrokerHost) -> None:
        del host
        if self._changes is not None:
            await self._changes.change(self._restart)

    async def _restart(self, host: BrokerHost) -> None:
        self.done["kill"] += 1
        await self._kill(host)

    async def _reassign(self, host: BrokerHost) -> None:
        del host
        await self._replicas.reassign()

    async def _elect(self, host: BrokerHost) -> None:
        del host
        await self._replicas.elect()

    # The network

    def _others(self, host: BrokerHost) -> list[str]:
        return [each.host for each in self._hosts.values() if each is not host]

    async def _partition(self, host: BrokerHost) -> None:
        side = [host.host]
        if len(self._hosts) > 3 and self._chance.random() < 0.5:
            side.append(self._chance.choice(self._others(host)))
        clients = [each for each in self._clients if self._chance.random() < 0.5]
        for here in side:
            for there in [each.host for each in self._hosts.values() if each.host not in side] + clients:
                self._world.network.partition(here, there)
        await trio.sleep(self._lasting_s(25.0))
        self._world.network.heal()

    async def _one_way(self, host: BrokerHost) -> None:
        others = self._others(host)
        for other in others if self._chance.random() < 0.5 else [self._chance.choice(others)]:
            pair = (host.host, other) if self._chance.random() < 0.5 else (other, host.host)
            self._world.network.partition(*pair, both_ways=False)
        await trio.sleep(self._lasting_s(25.0))
        self._world.network.heal()

    async def _loss(self, host: BrokerHost) -> None:
        del host
        faults = self._world.network.faults
        faults.reset = self._chance.choice((0.005, 0.02, 0.1))
        faults.cut = self._chance.choice((0.0, 0.02, 0.1))
        await trio.sleep(self._lasting_s())
        faults.reset = faults.cut = 0.0

    async def _delay(self, host: BrokerHost) -> None:
        del host
        faults = self._world.network.faults
        faults.delay_ms = (0.1, self._chance.choice((50.0, 300.0)))
        faults.spike = self._chance.choice((0.0, 0.02))
        await trio.sleep(self._lasting_s())
        faults.delay_ms, faults.spike = self._calm_ms, 0.0

    async def _slow_link(self, host: BrokerHost) -> None:
        other = self._chance.choice(self._others(host))
        pair = (host.host, other) if self._chance.random() < 0.5 else (other, host.host)
        self._world.network.slow_links[pair] = self._chance.choice((50.0, 500.0, 3000.0))
        await trio.sleep(self._lasting_s(25.0))
        self._world.network.slow_links.pop(pair, None)

    # Disks

    async def _slow_disk(self, host: BrokerHost) -> None:
        disk = self._world.disk(host.host)
        disk.pace = DiskPace(busy_ms=(0.1, self._chance.choice((20.0, 200.0))), stall=0.05, stall_ms=4000.0)
        await trio.sleep(self._lasting_s(20.0))
        disk.pace = self._pace()

    async def _bad_disk(self, host: BrokerHost) -> None:
        node, disk = self._node_of(host), self._world.disk(host.host)
        was_trusted = self._trusted.trusts(node)
        if not self._may_end(host, "bad-disk"):  # a broker whose disk fails stops
            return
        before = host.starts, disk.failed_calls
        disk.errors.write_error = self._chance.choice((0.0, 0.1, 0.4, 1.0))
        disk.errors.write_full = self._chance.choice((0.0, 0.1, 1.0))
        disk.errors.write_late = self._chance.choice((0.0, 0.1, 0.4))
        disk.errors.read_error = self._chance.choice((0.0, 0.05))
        await trio.sleep(self._lasting_s(5.0))
        disk.repair()
        is_unharmed = host.alive and host not in self._ending and (host.starts, disk.failed_calls) == before
        if is_unharmed and was_trusted:
            self._trusted.has_not_ended(node)
