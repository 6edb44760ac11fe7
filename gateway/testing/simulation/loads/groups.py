"""The load of a consumer group of the new protocol (KIP-848), whose members join, pause, leave and crash.

On one broker, in half of the simulations, classic members join the same group, so that the group is converted from one
protocol to the other and back (`group.consumer.migration.policy=bidirectional`).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import trio

from odradek.gateway.testing.simulation import World
from odradek.gateway.testing.simulation.loads.client import Brokers
from odradek.gateway.testing.simulation.loads.epoch_member import EpochMember
from odradek.gateway.testing.simulation.loads.inspector import Inspector
from odradek.gateway.testing.simulation.loads.member import SimMember
from odradek.gateway.testing.simulation.loads.oracle import EpochOracle, Invariant, check
from odradek.gateway.testing.simulation.loads.producer import SimProducer
from odradek.wire.messages.fetch import PartitionData

TOPIC, PARTITIONS, GROUP = "tasks", 5, "crew"
ROUNDS = 15
OWNED_S = 120.0


class GroupLoad:
    """See `Load`."""

    wait_limit_s = 600.0

    def __init__(self, world: World, broker: Brokers, oracle: EpochOracle | None = None) -> None:
        self.tally: Counter[str] = Counter()
        self._chance = world.chance("groups")
        self._oracle = oracle or EpochOracle()
        self._rounds = ROUNDS if broker.is_one else None
        self._inspector = Inspector(broker)
        topic = (TOPIC, PARTITIONS)
        self._producer = SimProducer(world, broker, self._oracle, "tasker", topic, idempotent=True)
        self._members = [
            EpochMember(world, broker, self._oracle, f"worker-{number}", GROUP, topic) for number in (1, 2, 3)
        ]
        self._world, self._broker = world, broker
        self._mixed = self._chance.random() < 0.5 and broker.is_one
        self._topic_id = UUID(int=0)

    @property
    def hosts(self) -> Sequence[str]:
        """See `Load.hosts`."""
        return [self._producer.name, "veteran", *(member.name for member in self._members)]

    @property
    def topics(self) -> Sequence[str]:
        """See `Load.topics`."""
        return [TOPIC]

    async def set_up(self) -> None:
        """See `Load.set_up`."""
        await self._inspector.create_topic(TOPIC, PARTITIONS)
        while TOPIC not in (topics := await self._inspector.topics()):  # noqa: ASYNC110 - other brokers have it later
            await trio.sleep(0.1)
        self._topic_id = UUID(topics[TOPIC][0])

    async def run(self, calm: trio.Event) -> None:
        """See `Load.run`."""
        async with trio.open_nursery() as clients:
            for member in self._members:
                clients.start_soon(member.run, self._topic_id)
            async with trio.open_nursery() as writers:
                writers.start_soon(self._producer.run, self._rounds, calm)
                if self._mixed:
                    writers.start_soon(self._classic_members, calm)
                await calm.wait()
            if not self._mixed:
                await self._all_owned()
            while await self._committed() != await self._inspector.offsets(TOPIC, PARTITIONS):  # noqa: ASYNC110 - as above
                await trio.sleep(1)  # the ends are read each time: a leader that was replaced may return too small ones
            for member in self._members:
                member.stop()
        self.tally["members died"] = sum(member.deaths for member in self._members)
        self.tally["members stood still"] = sum(member.pauses for member in self._members)
        self.tally["records read by a group of epochs"] = len(self._oracle.read)

    async def _classic_members(self, calm: trio.Event) -> None:
        """Run classic members, one at a time, each for some seconds."""
        while not calm.is_set():
            member = SimMember(self._world, self._broker, self._oracle, "veteran", GROUP, (TOPIC, PARTITIONS))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(member.run)
                with trio.move_on_after(self._chance.uniform(3, 12)):
                    await calm.wait()
                member.stop()
            self.tally["classic members in the group"] += 1
            await trio.sleep(self._chance.uniform(0, 3))

    async def _all_owned(self) -> None:
        """Wait until each partition has one owner. Raises Violation."""
        owned: list[int] = []
        with trio.move_on_after(OWNED_S):
            while owned != list(range(PARTITIONS)):
                owned = await self._inspector.owned(GROUP)
                await trio.sleep(1)
        check(owned == list(range(PARTITIONS)), Invariant.ALL_OWNED, f"after {OWNED_S:.0f} s {owned} are owned")

    async def _committed(self) -> dict[int, int]:
        return await self._inspector.committed(GROUP, TOPIC, range(PARTITIONS))

    async def state(self) -> Mapping[str, Any]:
        """See `Load.state`."""
        state: dict[str, Any] = {f"tasks {index}": await self._values(index) for index in range(PARTITIONS)}
        state["offsets of the crew"] = await self._committed()
        state["the crew"] = await self._inspector.epoch_group(GROUP)
        return state

    async def _values(self, partition: int) -> dict[int, str]:
        def seen(position: int, data: PartitionData, values: list[tuple[int, str]]) -> None:
            self._oracle.was_read("the last reader", partition, position, data.high_watermark, values)

        return await self._inspector.values(TOPIC, partition, seen)

    def judge(self, state: Mapping[str, Any]) -> None:
        """See `Load.judge`."""
        self._oracle.judge({index: state[f"tasks {index}"] for index in range(PARTITIONS)})
