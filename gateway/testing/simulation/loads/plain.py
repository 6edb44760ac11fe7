"""The load of producers without transactions, one classic consumer group, and an administrator's client."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import trio

from odradek.gateway.testing.simulation import World
from odradek.gateway.testing.simulation.loads.admin import SimAdmin
from odradek.gateway.testing.simulation.loads.client import Brokers
from odradek.gateway.testing.simulation.loads.inspector import Inspector
from odradek.gateway.testing.simulation.loads.member import SimMember
from odradek.gateway.testing.simulation.loads.oracle import Oracle
from odradek.gateway.testing.simulation.loads.producer import SimProducer
from odradek.wire.messages.fetch import PartitionData

TOPIC, PARTITIONS, GROUP = "events", 4, "readers"
ROUNDS = 25


class PlainLoad:
    """See `Load`."""

    wait_limit_s = 600.0

    def __init__(self, world: World, broker: Brokers, oracle: Oracle | None = None) -> None:
        self.tally: Counter[str] = Counter()
        self._oracle = oracle or Oracle()
        self._rounds = ROUNDS if broker.is_one else None
        self._inspector = Inspector(broker)
        topic = (TOPIC, PARTITIONS)
        self._producers = [
            SimProducer(world, broker, self._oracle, name, topic, idempotent=idempotent)
            for name, idempotent in (("safe-1", True), ("safe-2", True), ("plain", False))
            if idempotent or broker.is_one  # a cluster may lose what acks=1 acknowledged
        ]
        self._members = [
            SimMember(world, broker, self._oracle, f"member-{number}", GROUP, topic) for number in (1, 2, 3)
        ]
        self._operator = SimAdmin(world, broker)

    @property
    def hosts(self) -> Sequence[str]:
        """See `Load.hosts`."""
        return [each.name for each in (*self._producers, *self._members, self._operator)]

    @property
    def topics(self) -> Sequence[str]:
        """See `Load.topics`."""
        return [TOPIC, *self._operator.topics]

    async def set_up(self) -> None:
        """See `Load.set_up`."""
        await self._inspector.create_topic(TOPIC, PARTITIONS)

    async def run(self, calm: trio.Event) -> None:
        """See `Load.run`."""
        async with trio.open_nursery() as clients:
            for member in self._members:
                clients.start_soon(member.run)
            async with trio.open_nursery() as writers:
                writers.start_soon(self._operator.run)
                for producer in self._producers:
                    writers.start_soon(producer.run, self._rounds, calm)
                await calm.wait()
                self._operator.finish()
            while not await self._is_all_committed():  # noqa: ASYNC110 - it is the other side of a network
                await trio.sleep(1)
            for member in self._members:
                member.stop()
        self.tally["records read"] = len(self._oracle.read)

    async def _is_all_committed(self) -> bool:
        """Compare with the ends as they are now: a leader that was replaced may have returned too small ones before."""
        ends = await self._inspector.offsets(TOPIC, PARTITIONS)
        return await self._inspector.committed(GROUP, TOPIC, range(PARTITIONS)) == ends

    async def state(self) -> Mapping[str, Any]:
        """See `Load.state`."""
        state: dict[str, Any] = {"end offsets": await self._inspector.offsets(TOPIC, PARTITIONS)}
        state.update({f"partition {index}": await self._values(index) for index in range(PARTITIONS)})
        state["committed offsets"] = await self._inspector.committed(GROUP, TOPIC, range(PARTITIONS))
        state["group"] = await self._inspector.classic_group(GROUP)
        return state

    async def _values(self, partition: int) -> dict[int, str]:
        def seen(position: int, data: PartitionData, values: list[tuple[int, str]]) -> None:
            self._oracle.was_read("final reader", partition, position, data.high_watermark, values)

        return await self._inspector.values(TOPIC, partition, seen)

    def judge(self, state: Mapping[str, Any]) -> None:
        """See `Load.judge`."""
        self._oracle.judge({index: state[f"partition {index}"] for index in range(PARTITIONS)})
