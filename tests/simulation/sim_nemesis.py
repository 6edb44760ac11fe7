"""The faults of a simulation of one broker: the seed decides their mix, their times and their severity."""

from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import trio

from odradek.gateway.testing.simulation import World
from odradek.gateway.testing.simulation.broker_host import BrokerHost


class Nemesis:
    """Causes faults of one broker for some time, then repairs everything."""

    def __init__(self, world: World, broker: BrokerHost, clients: list[str], *, power_cuts: bool = True) -> None:
        self._world = world
        self._broker = broker
        self._clients = clients
        self._chance = world.chance("nemesis")
        self._nursery: trio.Nursery | None = None
        self.done: Counter[str] = Counter()
        kinds: list[Callable[[], Coroutine[Any, Any, None]]] = [
            self._kill,
            self._cut_power,
            self._restart,
            self._partition,
            self._bad_disk,
            self._bad_network,
            self._step_clock,
        ]
        self._kinds = kinds
        self._power_cuts = power_cuts
        # Each seed has its own mix: some faults are frequent, some do not occur. Crashes are always included.
        self._weights = [self._chance.choice((1, 2, 4)) for _ in kinds[:2]]
        self._weights += [self._chance.choice((0, 0, 1, 2, 4)) for _ in kinds[2:]]
        world.network.faults.delay_ms = (0.1, self._chance.choice((1, 5, 50)))
        world.network.faults.partial = self._chance.choice((0.0, 0.3))
        world.network.faults.spike = self._chance.choice((0.0, 0.02))
        world.disk(broker.host).pace.busy_ms = (0.1, self._chance.choice((1, 10, 40)))
        world.disk(broker.host).pace.stall = self._chance.choice((0.0, 0.05))

    async def run(self, nursery: trio.Nursery, until_s: float) -> None:
        """Cause faults until `until_s`, then repair everything, and start the broker if it is down."""
        self._nursery = nursery
        while trio.current_time() < until_s:
            await trio.sleep(self._chance.uniform(0.1, 3))
            [harm] = self._chance.choices(self._kinds, self._weights)
            self.done[harm.__name__.removeprefix("_")] += 1
            await harm()
        self._repair()
        if not self._broker.running:
            self._broker.start(nursery)

    def _repair(self) -> None:
        faults, disk = self._world.network.faults, self._world.disk(self._broker.host)
        self._world.network.heal()
        faults.delay_ms, faults.spike, faults.reset, faults.cut = (0.1, 1.0), 0.0, 0.0, 0.0
        disk.repair()
        disk.pace.stall = 0.0

    async def _down(self) -> None:
        """Leave the broker down for a random time, often a very short one, and start it again."""
        await trio.sleep(self._chance.choice((0, 0.1, 1, 4)) * self._chance.random())
        assert self._nursery is not None
        self._broker.start(self._nursery)
        if self._chance.random() < 0.7:
            await self._broker.ready()

    async def _kill(self) -> None:
        await self._broker.crash(power_cut=False)
        await self._down()

    async def _cut_power(self) -> None:
        await self._broker.crash(power_cut=self._power_cuts)
        await self._down()

    async def _restart(self) -> None:
        with trio.move_on_after(self._chance.choice((0.01, 10))):
            await self._broker.stop()
        await self._broker.crash(power_cut=False)
        await self._down()

    async def _partition(self) -> None:
        for client in self._chance.sample(self._clients, self._chance.randint(1, len(self._clients))):
            both_ways = self._chance.random() < 0.6
            pair = (client, self._broker.host) if self._chance.random() < 0.5 else (self._broker.host, client)
            self._world.network.partition(*pair, both_ways=both_ways)
        await trio.sleep(self._chance.uniform(0.1, 9))
        self._world.network.heal()

    async def _bad_disk(self) -> None:
        errors = self._world.disk(self._broker.host).errors
        errors.write_error = self._chance.choice((0.1, 0.4, 1.0))
        errors.write_full = self._chance.choice((0.0, 0.1, 1.0))
        errors.read_error = self._chance.choice((0.0, 0.05))
        await trio.sleep(self._chance.uniform(0.1, 2))
        errors.write_error = errors.write_full = errors.read_error = 0.0

    async def _step_clock(self) -> None:
        self._broker.skew_ms = self._chance.choice((-600_000, -1000, 0, 1000, 600_000))

    async def _bad_network(self) -> None:
        faults = self._world.network.faults
        faults.reset = self._chance.choice((0.0, 0.02, 0.2))
        faults.cut = self._chance.choice((0.0, 0.02, 0.2))
        await trio.sleep(self._chance.uniform(0.1, 3))
        faults.reset = faults.cut = 0.0
