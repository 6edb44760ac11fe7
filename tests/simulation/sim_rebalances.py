"""Many members of one group that join and leave at the same time, over a slow network without faults.

Each sends heartbeats within its session time-out, so that none may get UNKNOWN_MEMBER_ID; in each generation a
partition has one owner; and generations only grow.

    python tests/simulation/sim_rebalances.py SEED
"""

import argparse
from dataclasses import dataclass, field

import trio
from trio.testing import MockClock

from odradek.gateway.testing.simulation import World, run_virtually
from odradek.gateway.testing.simulation.broker_host import BrokerHost
from odradek.gateway.testing.simulation.loads.client import SimClient
from odradek.gateway.testing.simulation.loads.oracle import Invariant, Violation, check
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from odradek.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

BROKER, GROUP = ("broker-1", 9092), "g"
SESSION_MS, REBALANCE_MS = 6_000, 10_000
HEARTBEAT_S = 1.0
PARTITIONS = range(6)
WAIT_LIMIT_S = 600.0
SETTINGS = {
    "odradek.storage": "memory://",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "500",
    "group.min.session.timeout.ms": "1000",
}


@dataclass
class Book:
    """The answers to the members."""

    owners: dict[int, dict[int, str]] = field(default_factory=dict[int, dict[int, str]])
    generations: int = 0

    def joined(self, name: str, before: int, generation: int) -> None:
        """A member has entered a generation."""
        check(
            generation >= before,
            Invariant.GENERATIONS_GROW,
            f"{name} went from generation {before} back to {generation}",
        )
        self.generations = max(self.generations, generation)

    def assigned(self, generation: int, name: str, partitions: bytes) -> None:
        """A member has been assigned partitions."""
        owners = self.owners.setdefault(generation, {})
        for partition in partitions:
            owner = owners.setdefault(partition, name)
            check(
                owner == name,
                Invariant.ONE_OWNER,
                f"partition {partition} belongs to {owner} and {name} in generation {generation}",
            )


async def await_coordinator(client: SimClient, group: str = GROUP) -> None:
    """Return when the coordinator is available."""
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=(group,))
    while True:
        answer = await client.call(request, WAIT_LIMIT_S)
        assert isinstance(answer, FindCoordinatorResponse)
        if not answer.coordinators[0].error_code:
            return
        await trio.sleep(0.1)


class Member:
    """A member that follows the protocol exactly, with time-outs that never expire."""

    def __init__(self, world: World, name: str, book: Book) -> None:
        self.name = name
        self.member_id, self.generation = "", -1
        self.synced = trio.Event()
        self.client = SimClient(world, name, BROKER)
        self._book = book
        self._leaving = trio.Event()

    def leave(self) -> None:
        """Leave at the next step."""
        self._leaving.set()

    async def run(self) -> None:
        """Take part in the group until `leave`. Raises Violation."""
        await await_coordinator(self.client)
        while not self._leaving.is_set():
            joined = await self.join()
            if joined is not None and await self.sync(joined):
                await self._heartbeat_until_told()
        identity = MemberIdentity(member_id=self.member_id)
        await self.client.call(LeaveGroupRequest(group_id=GROUP, members=(identity,)), WAIT_LIMIT_S)
        self.client.close()

    def _may_go_on(self, code: int) -> bool:
        error = ErrorCode(code)
        if error in {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID}:
            raise Violation(Invariant.MEMBERS_KEPT, f"{self.name} lives, and was told {error.name}")
        return error is ErrorCode.NONE

    async def join(self) -> JoinGroupResponse | None:
        """Send JoinGroup once; None if it must be repeated."""
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=b""),),
        )
        joined = await self.client.call(request, WAIT_LIMIT_S)
        assert isinstance(joined, JoinGroupResponse)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            return None
        if not self._may_go_on(joined.error_code):
            return None
        self._book.joined(self.name, self.generation, joined.generation_id)
        self.member_id, self.generation = joined.member_id, joined.generation_id
        return joined

    async def sync(self, joined: JoinGroupResponse) -> bool:
        """Send SyncGroup; True if it returned an assignment."""
        given = {member.member_id: bytearray() for member in joined.members}
        for index, partition in enumerate(PARTITIONS if given else ()):
            list(given.values())[index % len(given)].append(partition)
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=tuple(
                SyncGroupRequestAssignment(member_id=member_id, assignment=bytes(part))
                for member_id, part in given.items()
            ),
        )
        synced = await self.client.call(request, WAIT_LIMIT_S)
        assert isinstance(synced, SyncGroupResponse)
        if not self._may_go_on(synced.error_code):
            return False
        self._book.assigned(self.generation, self.name, bytes(synced.assignment))
        self.synced.set()
        return True

    async def heartbeat(self) -> int:
        """Send a heartbeat and return the error code."""
        request = HeartbeatRequest(group_id=GROUP, generation_id=self.generation, member_id=self.member_id)
        answer = await self.client.call(request, WAIT_LIMIT_S)
        assert isinstance(answer, HeartbeatResponse)
        return answer.error_code

    async def _heartbeat_until_told(self) -> None:
        while not self._leaving.is_set():
            with trio.move_on_after(HEARTBEAT_S):
                await self._leaving.wait()
            if not self._may_go_on(await self.heartbeat()):
                return


async def described(client: SimClient) -> tuple[str, int]:
    """The group's state and number of members."""
    answer = await client.call(DescribeGroupsRequest(groups=(GROUP,)), WAIT_LIMIT_S)
    assert isinstance(answer, DescribeGroupsResponse)
    return answer.groups[0].group_state, len(answer.groups[0].members)


def stand_still(seconds: float) -> None:
    """Let the clock jump, as if the whole process was suspended: all deadlines within that time are due at once."""
    clock = trio.lowlevel.current_clock()
    assert isinstance(clock, MockClock)
    clock.jump(seconds)


def simulate(seed: int) -> tuple[Book, str]:
    """Run one seed. Returns the answers, and the trace's digest. Raises Violation."""
    world, book = World(seed), Book()
    chance = world.chance("members")
    world.network.faults.delay_ms = (0.0, chance.choice((5.0, 100.0, 400.0)))

    async def come_and_go(member: Member, nursery: trio.Nursery) -> None:
        nursery.start_soon(member.run)
        await trio.sleep(chance.uniform(0, 25))
        member.leave()

    async def main() -> None:
        host = BrokerHost(world, *BROKER, settings=SETTINGS)
        with host.internal_errors() as internal:
            async with trio.open_nursery() as outer:
                host.start(outer)
                await host.ready()
                await _members_come_and_go()
                await _all_are_gone()
                await host.stop()
        check(not internal, Invariant.NO_INTERNAL_ERRORS, "\n".join(internal))

    async def _members_come_and_go() -> None:
        with trio.fail_after(WAIT_LIMIT_S):
            async with trio.open_nursery() as nursery:
                for number in range(24):
                    nursery.start_soon(come_and_go, Member(world, f"member-{number}", book), nursery)
                    if chance.random() < 0.5:
                        await trio.sleep(chance.uniform(0, 3))
                    if chance.random() < 0.2:
                        stand_still(chance.uniform(0, SESSION_MS / 1000 - HEARTBEAT_S - 2))
                        await trio.sleep(3)  # with jumps in succession, sessions would expire

    async def _all_are_gone() -> None:
        client = SimClient(world, "admin", BROKER)
        state = await described(client)
        client.close()
        check(state == ("Empty", 0), Invariant.LIVENESS, f"after everybody has left: {state}")

    run_virtually(seed, main)
    return book, world.trace.digest


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("seed", type=int)
    asked = parser.parse_args()
    seen, digest = simulate(asked.seed)
    print(f"{seen.generations} generations, {digest}")
