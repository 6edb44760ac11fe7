"""Faults that overlap on one machine leave it running when they are over."""

import random
from collections.abc import Sequence
from typing import Any

import trio

from odradek.gateway.testing.simulation import World, run_virtually
from odradek.gateway.testing.simulation.cluster.faults import Faults
from odradek.gateway.testing.simulation.scheduling import Pause

SLOW_STOP_S = 30.0


class SlowToStop:
    """A machine whose process needs seconds for a controlled shutdown; it has the interface of `BrokerHost`."""

    host = "node-1"

    def __init__(self) -> None:
        self.pause = Pause()
        self.skew_ms = 0
        self.seen: list[str] = []
        self._ended = trio.Event()
        self._ended.set()

    @property
    def running(self) -> bool:
        return not self._ended.is_set()

    alive = running

    def start(self, nursery: trio.Nursery) -> None:
        assert not self.running
        self._ended = trio.Event()
        self._note("started")
        self._nursery = nursery

    async def stop(self) -> None:
        self._note("stopping")
        self._nursery.start_soon(self._end_later, self._ended)
        await self._ended.wait()

    async def _end_later(self, ended: trio.Event) -> None:
        await trio.sleep(SLOW_STOP_S)
        if not ended.is_set():
            self._note("stopped")
        ended.set()

    async def crash(self, *, power_cut: bool) -> None:
        await trio.lowlevel.checkpoint()
        if self.running:
            self._note("crashed")
        self._ended.set()

    def _note(self, what: str) -> None:
        self.seen.append(f"{trio.current_time():.1f} {what}")


class TrustsAll:
    """No disk is ever lost, so that any broker may end."""

    def may_end_uncleanly(self, _node: int) -> bool:
        return True

    def ends_uncleanly(self, _node: int) -> None:
        pass


class Scripted(random.Random):
    """Draws the kinds of faults in a given order, one every two seconds, and how long each machine stays down."""

    def __init__(self, kinds: list[str], shares_of_longest: list[float]) -> None:
        super().__init__(0)
        self._kinds, self._shares = iter(kinds), iter(shares_of_longest)

    def choices(self, *_: Any) -> list[str]:
        return [next(self._kinds)]

    def choice(self, of: Sequence[Any]) -> Any:
        return of[-1]

    def uniform(self, *_: float) -> float:
        return 2.0

    def random(self) -> float:
        return next(self._shares)


class ScriptedWorld(World):
    script: Scripted | None = None

    def chance(self, name: str) -> random.Random:
        return self.script or super().chance(name)


def test_a_process_that_one_of_three_overlapping_faults_is_stopping_runs_afterwards() -> None:
    """The first fault's wait ends while the third stops what the second has started (seed 970170)."""

    async def main() -> list[str]:
        machine: Any = SlowToStop()
        trusted: Any = TrustsAll()
        replicas: Any = None
        world = ScriptedWorld(0)
        world.script = Scripted(["kill", "kill", "stop", "skew", "skew"], [0.5, 0.1])
        async with trio.open_nursery() as nursery:
            machine.start(nursery)
            faults = Faults(world, {1: machine}, [], [], ("kill", "stop", "skew"), list, trusted, replicas)
            await faults.run(nursery, 9.0)
            await trio.sleep(2 * SLOW_STOP_S)
            nursery.cancel_scope.cancel()
        return machine.seen

    assert run_virtually(0, main) == [
        "0.0 started",
        "2.0 crashed",
        "5.2 started",
        "6.0 stopping",
        "10.0 crashed",
        "10.0 started",
    ]
