"""An operator's requests that change the voters of the quorum during load and faults (KIP-853).

The first controller forms the quorum and the others are added to it before the load begins. Then a change is one of:

    a voter is removed, maybe the leader       a controller that is not a voter is added
    a voter is restarted at another port       a voter loses its disk, is removed, and is added with its new directory

In half of the runs controllers that are not voters also join by themselves (KIP-1186).
A voter's disk is lost only while no other voter's disk is, and while every voter set that contains it and may be in
force has at least three members: a smaller one has no majority without it. A voter is moved only while all controllers
are voters, and no voter is removed until the log contains the new endpoint: as in Kafka, others that need its vote
could not reach it otherwise.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, cast

import trio

from odradek.coordinator.quorum.values import ReplicaKey
from odradek.coordinator.quorum.voters import VoterSet
from odradek.gateway.quorum import QuorumDriver
from odradek.gateway.testing.simulation.broker_host import BrokerHost
from odradek.gateway.testing.simulation.environment import World
from odradek.gateway.testing.simulation.loads.client import SimClient, UnreachableError
from odradek.gateway.testing.simulation.loads.oracle import Invariant, check
from odradek.wire.api_keys import ApiKey
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from odradek.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from odradek.wire.schema.schema import Message

PORT: Final = 9093
OTHER_PORT: Final = 9193
FORM_S: Final = 120.0
SMALL_LOG: Final = {
    "metadata.log.max.record.bytes.between.snapshots": "3000",
    "metadata.max.retention.bytes": "2000",
}
"""With these the metadata log is deleted up to a new snapshot every few seconds."""
_VERSIONS: Final = {ApiKey.ADD_RAFT_VOTER: 1, ApiKey.REMOVE_RAFT_VOTER: 0}


def bootstrap(nodes: Sequence[int]) -> Mapping[str, str]:
    """The setting with the addresses of controllers that can be asked for the leader."""
    return {"controller.quorum.bootstrap.servers": ",".join(f"node-{each}:{PORT}" for each in nodes)}


class VoterChanges:
    """Changes the voters of the quorum. `nodes` are the controllers among `hosts`; the first of them forms it."""

    def __init__(self, world: World, hosts: Mapping[int, BrokerHost], nodes: Sequence[int]) -> None:
        self._world = world
        self._hosts = hosts
        self._nodes = nodes
        self._chance = world.chance("voters")
        self._smallest = self._chance.choice((1, 1, 2, 3))
        self._asking = 0
        self._lost: set[ReplicaKey] = set()
        self._ports = dict.fromkeys(nodes, PORT)
        joins = world.chance("auto join").random() < 0.5
        trims = self._chance.random() < 0.5
        for node, host in hosts.items():
            asked = nodes[:1] if node == nodes[0] else nodes
            host.settings.pop("controller.quorum.voters")
            host.settings |= {**bootstrap(asked), **(SMALL_LOG if trims else {})}
            if joins and node in nodes:
                host.settings["controller.quorum.auto.join.enable"] = "true"

    async def form(self) -> None:
        """Make all controllers voters; afterwards the first bootstraps from all of them, and forms no new quorum."""
        with trio.move_on_after(FORM_S):
            while self._outside() is None or self._outside():
                outside = self._outside()
                if outside:
                    await self._add(outside[0])
                await trio.sleep(0.1)
        check(self._outside() == [], Invariant.LIVENESS, f"not all are voters after {FORM_S:.0f} s")
        self._hosts[self._nodes[0]].settings |= bootstrap(self._nodes)

    async def change(self, restart: Callable[[BrokerHost], Awaitable[None]]) -> None:
        """Request one change, or three at the same time, from the leader; `restart` kills a node and restarts it."""
        async with trio.open_nursery() as operators:
            for _ in range(self._chance.choice((1, 1, 3))):
                operators.start_soon(self._change, restart)

    async def _change(self, restart: Callable[[BrokerHost], Awaitable[None]]) -> None:
        named, outside = self._named(), self._outside()
        if named is None or outside is None:
            return
        gone = [key for key in sorted(self._lost) if key in named]
        if gone:
            await self._remove(gone[0])
            return
        if self._lost and not self._is_settled_without_lost():
            return
        self._lost.clear()
        if outside and (self._chance.random() < 0.6 or len(named.voters) <= self._smallest):
            await self._add(self._chance.choice(outside))
        elif self._is_moving(named):
            return
        elif self._chance.random() < 0.2:
            if not self._asking and len(self._sets()) == len(self._nodes) == len(named.voters):
                await self._move(self._nodes[-1], restart)
        elif len(named.voters) > self._smallest:
            await self._remove(self._chance.choice(named.voters).key)

    def _is_moving(self, named: VoterSet) -> bool:
        """True while the log lacks the new port of a voter that has moved: no election may depend on it then."""
        ports = {each.key.id: each.endpoints["CONTROLLER"][1] for each in named.voters}
        return any(self._ports[node] != port for node, port in ports.items())

    def lose(self, node: int) -> bool:
        """Return True, and treat the disk as lost, if a node's disk may be lost with its vote."""
        key = self._key(node)
        if node not in self._nodes or key is None or self._lost or any(map(self._is_moving, self._sets())):
            return False
        sets = self._sets()
        if len(sets) < len(self._nodes) or any(len(each.voters) < 3 for each in sets if key in each):
            return False
        self._lost.add(key)
        return True

    # The present state

    def _quorums(self) -> list[QuorumDriver]:
        hosts = [self._hosts[node] for node in self._nodes]
        return [host.broker.services.quorum for host in hosts if host.alive and host.broker is not None]

    def _leader(self) -> QuorumDriver | None:
        leaders = [each for each in self._quorums() if each.active_epoch is not None]
        return max(leaders, key=lambda each: each.core.epoch, default=None)

    def _named(self) -> VoterSet | None:
        leader = self._leader()
        named = None if leader is None else leader.replica.voters
        return None if named is None else named.voters

    def _sets(self) -> list[VoterSet]:
        """The voter sets in force at the running nodes; for an uncommitted set also the one before it."""
        found: list[VoterSet] = []
        for quorum in self._quorums():
            named = quorum.replica.voters
            if named is None or (named.offset >= quorum.core.high_watermark and named.before is None):
                continue
            sets = (named.voters, named.before if named.offset >= quorum.core.high_watermark else None)
            found += [each for each in sets if each is not None]
        return found

    def _is_settled_without_lost(self) -> bool:
        """True if the newest set is committed, and no set that may be in force has a voter whose disk was lost."""
        leader = self._leader()
        named = None if leader is None else leader.replica.voters
        is_committed = leader is not None and named is not None and named.offset < leader.core.high_watermark
        return is_committed and not any(key in each for key in self._lost for each in self._sets())

    def _outside(self) -> list[int] | None:
        """The running controllers that are not voters; None while no leader is known."""
        named = self._named()
        if named is None:
            return None
        return [node for node in self._nodes if self._key(node) is not None and named.get(node) is None]

    def _key(self, node: int) -> ReplicaKey | None:
        host = self._hosts[node]
        return host.broker.services.quorum.core.me if host.alive and host.broker is not None else None

    # Requests

    async def _add(self, node: int) -> None:
        key = self._key(node)
        if key is None:
            return
        listener = Listener(name="CONTROLLER", host=f"node-{node}", port=self._ports[node])
        request = AddRaftVoterRequest(
            cluster_id=None, voter_id=node, voter_directory_id=key.directory_id, listeners=(listener,)
        )
        answer = await self._ask(request)
        if answer is not None:
            self._tell("added", node, cast("AddRaftVoterResponse", answer).error_code)

    async def _remove(self, key: ReplicaKey) -> None:
        request = RemoveRaftVoterRequest(cluster_id=None, voter_id=key.id, voter_directory_id=key.directory_id)
        answer = await self._ask(request)
        if answer is not None:
            self._tell("removed", key.id, cast("RemoveRaftVoterResponse", answer).error_code)

    async def _ask(self, request: Message) -> Message | None:
        leader = self._leader()
        if leader is None:
            return None
        address = leader.endpoints["CONTROLLER"]
        client = SimClient(self._world, "operator", address, _VERSIONS)
        self._asking += 1
        try:
            return await client.call(request)
        except UnreachableError:
            return None
        finally:
            self._asking -= 1
            client.close()

    def _tell(self, what: str, node: int, error: int) -> None:
        self._world.record("operator", f"voter {node} {what}: {ErrorCode(error).name}")

    async def _move(self, node: int, restart: Callable[[BrokerHost], Awaitable[None]]) -> None:
        host, old = self._hosts[node], self._ports[node]
        new = self._ports[node] = OTHER_PORT if old == PORT else PORT
        host.settings["listeners"] = host.settings["listeners"].replace(f":{old}", f":{new}")
        self._world.record(host.host, f"listens for controllers at {new}")
        await restart(host)
