"""The simulated world: virtual time, one seed for all randomness, a memory network and disks that survive crashes.

A `World` contains what outlives processes. Each start of a process on a host gets a `SimEnvironment` of its own; when
the host crashes, that environment is dead: tasks of the process that are still unwinding cannot use network or disk.
"""

import random
import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, TypeVar

import outcome
import trio

from odradek.gateway.env.loop_watch import LoopRecord
from odradek.gateway.net.poller import Poller
from odradek.gateway.net.transport import Listener, Transport
from odradek.gateway.testing.simulation.disk import Disk, Medium, VolatileMedium
from odradek.gateway.testing.simulation.network import MemoryNetwork
from odradek.gateway.testing.simulation.poller import MemoryPoller
from odradek.gateway.testing.simulation.timers import sleep_shielded
from odradek.gateway.testing.simulation.trace import Trace
from odradek.storage_backends.interface import Store, StoreError

T = TypeVar("T")

EPOCH_MS: Final = 1_750_000_000_000
"""The time of the hosts' wall clocks when a simulation begins, without their skew."""


class World:
    """Everything in one simulation, determined by `seed`. `medium()` creates the medium of each disk.

    `largest_skew_ms` is the most by which any broker's wall clock was ahead. `on_step` is called with a host's name
    after each event of the trace at that host, and whenever one of its blocking calls has taken effect or has failed.
    """

    def __init__(self, seed: int, medium: Callable[[], Medium] = VolatileMedium) -> None:
        self.seed = seed
        self._medium = medium
        self.trace = Trace()
        self.largest_skew_ms = 0
        self.on_step: Callable[[str], None] = _ignore
        self.network = MemoryNetwork(self.chance("network"), record=self.record)
        self._disks: dict[str, Disk] = {}
        self._starts: dict[str, int] = {}

    def chance(self, name: str) -> random.Random:
        """A separate random generator for each `name`, so that one more draw from one does not change the others."""
        return random.Random(f"{self.seed}/{name}")  # noqa: S311 - chosen to be repeatable

    def record(self, host: str, what: str) -> None:
        """Add an event to the trace."""
        self.trace.record(trio.current_time(), host, what)
        self.on_step(host)

    def disk(self, host: str) -> Disk:
        """The disk of `host`; the same one after each crash."""
        if host not in self._disks:
            self._disks[host] = Disk(self.chance(f"disk of {host}"), self._medium())
        return self._disks[host]

    def close(self) -> None:
        """Close the stores that crashed processes left open."""
        for disk in self._disks.values():
            disk.close()

    def environment(self, host: str) -> "SimEnvironment":
        """The environment of a process that starts on `host` now."""
        self._starts[host] = self._starts.get(host, 0) + 1
        return SimEnvironment(self, host, self.chance(f"{host} start {self._starts[host]}"))

    def crash(self, env: "SimEnvironment", *, power_cut: bool) -> None:
        """Kill the process that uses `env`; a power cut stops its machine too, so that peers are not notified.

        What its memory holds is checked before, since responses that are under way already tell it to others.
        """
        self.on_step(env.host)
        env.dead = True
        self.record(env.host, f"crashed power_cut={power_cut}")
        self.network.crash(env.host, silently=power_cut)
        self.disk(env.host).crash(power_cut=power_cut)


def _ignore(_host: str) -> None:
    """The default of `World.on_step`."""


class SimEnvironment:
    """One process's `odradek.gateway.env.environment.Environment`.

    `skew_ms` is how far its host's wall clock is ahead; a change steps the clock.
    """

    def __init__(self, world: World, host: str, chance: random.Random, skew_ms: int = 0) -> None:
        self.host = host
        self.random = chance
        self.skew_ms = skew_ms
        self.dead = False
        self._world = world

    def uuid(self) -> uuid.UUID:
        """See `Environment.uuid`: determined by the seed."""
        return uuid.UUID(int=self.random.getrandbits(128), version=4)

    def host_name(self) -> str:
        """See `Environment.host_name`: the simulated host's."""
        return self.host

    def monotonic_ms(self) -> int:
        """See `Environment.monotonic_ms`: virtual time."""
        return int(trio.current_time() * 1000)

    def monotonic_us(self) -> int:
        """See `Environment.monotonic_us`: virtual time."""
        return int(trio.current_time() * 1_000_000)

    def wall_ms(self) -> int:
        """See `Environment.wall_ms`: virtual time, skewed."""
        return EPOCH_MS + self.monotonic_ms() + self.skew_ms

    async def run_blocking(self, call: Callable[[], T]) -> T:
        """See `Environment.run_blocking`: the call takes effect at a moment within its duration.

        If the host crashes before that moment, the call has no effect; if it crashes after, the call has its effect. In
        both cases StoreError is raised.
        """
        before_s, after_s = self._world.disk(self.host).busy_s()
        await self._pass_time(before_s)
        try:
            result = call()
        finally:
            self._world.on_step(self.host)
        await self._pass_time(after_s)
        return result

    def start_blocking(
        self, nursery: trio.Nursery, call: Callable[[], T], deliver: Callable[[outcome.Outcome[T]], object]
    ) -> None:
        """See `Environment.start_blocking`."""
        nursery.start_soon(self._run_and_deliver, call, deliver)

    async def _run_and_deliver(self, call: Callable[[], T], deliver: Callable[[outcome.Outcome[T]], object]) -> None:
        deliver(await outcome.acapture(self.run_blocking, call))

    async def _pass_time(self, seconds: float) -> None:
        await sleep_shielded(seconds)
        self._check_alive()

    def _check_alive(self) -> None:
        if self.dead:
            raise StoreError(f"{self.host} has crashed")

    async def listen(self, host: str, port: int) -> Sequence[Listener]:
        """See `Environment.listen`."""
        await trio.lowlevel.checkpoint()
        if self.dead:
            raise ConnectionAbortedError(f"{self.host} has crashed")
        return self._world.network.listen(host, port)

    async def dial(self, host: str, port: int) -> Transport:
        """See `Environment.dial`."""
        if self.dead:
            raise ConnectionAbortedError(f"{self.host} has crashed")
        return await self._world.network.dial(self.host, host, port)

    def poller(self) -> Poller[Any]:
        """See `Environment.poller`."""
        return MemoryPoller()

    def open_store(self, url: str) -> Store:
        """See `Environment.open_store`: opens the host's disk; the URL is ignored."""
        del url
        return self._world.disk(self.host).open()

    def watch_loop(self, limit_ms: int) -> AbstractContextManager[LoopRecord]:
        """See `Environment.watch_loop`: measures nothing, since real durations would make the trace differ by run."""
        del limit_ms
        return nullcontext(LoopRecord())
