"""The simulated world: virtual time, one seed for all chance, a memory network and disks that survive crashes.

A `World` holds what outlives processes. Each start of a process on a host gets a `SimEnvironment` of its own; when the
host crashes, that environment is dead: nothing that still unwinds in the process gets to the network or the disk.
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
"""What the hosts' wall clocks show when a simulation begins, but for their skew."""


class World:
    """Everything of one simulation, decided by `seed`. `medium()` makes another disk than one of volatile memory.

    `largest_skew_ms` is how far the wall clock of a broker was ahead at most. `on_step` is called with a host's name
    whenever a message came to it, or a blocking call of it had its effect.
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
        """A random of its own for each use, so that one more draw in one place leaves the others as they were."""
        return random.Random(f"{self.seed}/{name}")  # noqa: S311 - chosen to be repeatable

    def record(self, host: str, what: str) -> None:
        """Add an event to the trace."""
        self.trace.record(trio.current_time(), host, what)
        self.on_step(host)

    def disk(self, host: str) -> Disk:
        """The disk of `host`, which stays the same through crashes."""
        if host not in self._disks:
            self._disks[host] = Disk(self.chance(f"disk of {host}"), self._medium())
        return self._disks[host]

    def close(self) -> None:
        """Close what crashed processes left open on disks."""
        for disk in self._disks.values():
            disk.close()

    def environment(self, host: str) -> "SimEnvironment":
        """What a process started on `host` now is given."""
        self._starts[host] = self._starts.get(host, 0) + 1
        return SimEnvironment(self, host, self.chance(f"{host} start {self._starts[host]}"))

    def crash(self, env: "SimEnvironment", *, power_cut: bool) -> None:
        """Kill the process that has `env`; with a power cut its machine too, so that peers are not notified."""
        env.dead = True
        self.record(env.host, f"crashed power_cut={power_cut}")
        self.network.crash(env.host, silently=power_cut)
        self.disk(env.host).crash(power_cut=power_cut)


def _ignore(_host: str) -> None:
    """Nothing watches."""


class SimEnvironment:
    """One process's `odradek.gateway.env.environment.Environment`.

    `skew_ms` is how far its host's wall clock is off; change it to step the clock.
    """

    def __init__(self, world: World, host: str, chance: random.Random, skew_ms: int = 0) -> None:
        self.host = host
        self.random = chance
        self.skew_ms = skew_ms
        self.dead = False
        self._world = world

    def uuid(self) -> uuid.UUID:
        """See `Environment.uuid`: follows from the seed."""
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
        """See `Environment.run_blocking`: the call takes effect at a moment within the time the disk is busy.

        A crash before that moment finds nothing done, one after it finds it done and not yet reported.
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
        """See `Environment.open_store`: whatever the URL, it is the host's disk."""
        del url
        return self._world.disk(self.host).open()

    def watch_loop(self, limit_ms: int) -> AbstractContextManager[LoopRecord]:
        """See `Environment.watch_loop`: what really takes long depends on the machine, and would change the trace."""
        del limit_ms
        return nullcontext(LoopRecord())
