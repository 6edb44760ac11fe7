"""One production broker under faults, with clients of many kinds; the answers to them are checked.

    python tests/simulation/sim_one_broker.py SEED [--trace] [--load NAME]...

runs one seed and prints its failure, if any, and its digest; with `--trace` also the newest events.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import trio
from sim_compaction import CompactionLoad
from sim_nemesis import Nemesis
from sim_retention import RetentionLoad

from odradek.gateway.errors import StartError
from odradek.gateway.testing.simulation import World, run_virtually
from odradek.gateway.testing.simulation.broker_host import BrokerHost
from odradek.gateway.testing.simulation.disk import Medium, VolatileMedium
from odradek.gateway.testing.simulation.loads.client import Brokers, OneBroker
from odradek.gateway.testing.simulation.loads.groups import GroupLoad
from odradek.gateway.testing.simulation.loads.inspector import Inspector
from odradek.gateway.testing.simulation.loads.load import Load
from odradek.gateway.testing.simulation.loads.oracle import Invariant, Violation, check
from odradek.gateway.testing.simulation.loads.plain import PlainLoad
from odradek.gateway.testing.simulation.loads.transactions import TransactionLoad

BROKER = ("broker-1", 9092)
FAULTS_UNTIL_S = 30.0
SETTINGS = {
    "odradek.storage": "memory://",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.cleaner.backoff.ms": "700",
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "500",
    "group.initial.rebalance.delay.ms": "500",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "1000",
}
NO_SYNCS = {"log.flush.interval.messages": "9223372036854775807"}
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})
LOADS: Mapping[str, Callable[[World, Brokers], Load]] = {
    "plain": PlainLoad,
    "transactions": TransactionLoad,
    "groups": GroupLoad,
    "compaction": CompactionLoad,
    "retention": RetentionLoad,
}
"""All loads by name; by default a simulation has all of them."""
ALL = tuple(LOADS)


@dataclass(frozen=True)
class Result:
    """The result of a simulation.

    `failure` is empty if there was none; `invariant` is None then, and also if the failure is no violation of an
    invariant. `tally` has the counts of the loads' events.
    """

    seed: int
    loads: Sequence[str]
    digest: str
    events: int
    tally: Mapping[str, int]
    faults: Mapping[str, int]
    failure: str
    invariant: Invariant | None
    trace: tuple[str, ...]

    def explain(self) -> str:
        only = "" if self.loads == ALL else "".join(f" --load {name}" for name in self.loads)
        command = f"python tests/simulation/sim_one_broker.py {self.seed} --trace{only}"
        return f"seed {self.seed}: {self.failure}\nreproduce with: {command}\n" + "\n".join(self.trace[-60:])


def simulate(
    seed: int, medium: Callable[[], Medium] = VolatileMedium, *, syncs: bool = True, loads: Sequence[str] = ALL
) -> Result:
    """Run the simulation of `seed`. Any failure is returned in the result.

    Without `syncs` the broker does not sync commits, and there are no power cuts.
    """
    world = World(seed, medium)
    failure, invariant = "", None
    simulation = _Simulation(world, [LOADS[name](world, OneBroker(world, BROKER)) for name in loads], syncs=syncs)
    try:
        run_virtually(seed, simulation.run)
    except Exception as error:  # noqa: BLE001 - the caller reports it with its seed
        cause = _first_cause(error)
        failure = f"{type(cause).__name__}: {cause}"
        invariant = _broken(cause)
    finally:
        world.close()
    trace = tuple(map(str, world.trace.newest()))
    faults, tally = simulation.nemesis.done, simulation.tally
    return Result(seed, loads, world.trace.digest, world.trace.count, tally, faults, failure, invariant, trace)


def _broken(cause: BaseException) -> Invariant | None:
    """The invariant that the failure violates; None for a defect of the simulation itself."""
    if isinstance(cause, Violation):
        return cause.invariant
    return Invariant.STARTS_AGAIN if isinstance(cause, StartError) else None


def _first_cause(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = next((each for each in _leaves(error) if isinstance(each, Violation)), error.exceptions[0])
    return error


def _leaves(error: BaseException) -> Sequence[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for each in error.exceptions for leaf in _leaves(each)]
    return [error]


class _Simulation:
    def __init__(self, world: World, loads: Sequence[Load], *, syncs: bool) -> None:
        self._syncs = syncs
        self._loads = loads
        self._wait_limit_s = max(load.wait_limit_s for load in loads)
        self._broker = BrokerHost(world, *BROKER, settings=SETTINGS if syncs else {**SETTINGS, **NO_SYNCS})
        self._inspector = Inspector(OneBroker(world, BROKER))
        clients = [host for load in loads for host in load.hosts]
        self.nemesis = Nemesis(world, self._broker, clients, power_cuts=syncs)

    @property
    def tally(self) -> Counter[str]:
        return sum((load.tally for load in self._loads), Counter[str]())

    async def run(self) -> None:
        with self._broker.internal_errors() as internal:
            async with trio.open_nursery() as nursery:
                self._broker.start(nursery)
                for load in self._loads:
                    await load.set_up()
                await self._under_faults(nursery)
                with trio.move_on_after(self._wait_limit_s) as waiting:
                    await self._at_rest(nursery)
                check(not waiting.cancelled_caught, Invariant.LIVENESS, "the state does not come to rest")
            check(not internal, Invariant.NO_INTERNAL_ERRORS, "\n".join(internal))

    async def _under_faults(self, nursery: trio.Nursery) -> None:
        calm = trio.Event()
        working = [type(load).__name__ for load in self._loads]

        async def work(load: Load) -> None:
            await load.run(calm)
            working.remove(type(load).__name__)

        async with trio.open_nursery() as clients:
            for load in self._loads:
                clients.start_soon(work, load)
            await self.nemesis.run(nursery, FAULTS_UNTIL_S)
            calm.set()
            clients.cancel_scope.deadline = trio.current_time() + self._wait_limit_s
        check(not clients.cancel_scope.cancelled_caught, Invariant.LIVENESS, f"{working} did not come to an end")

    async def _at_rest(self, nursery: trio.Nursery) -> None:
        """Check that a crash changes nothing, and that the state at the end agrees with the answers to clients."""
        before = await self._settled_state()
        await self._broker.crash(power_cut=self._syncs)
        self._broker.start(nursery)
        after = await self._state()
        for name, was in before.items():
            check(
                after[name] == was,
                Invariant.STATE_IS_REPLAY,
                f"a restart changed {name} from\n{was}\nto\n{after[name]}",
            )
        expected = sorted(topic for load in self._loads for topic in load.topics)
        there = sorted(before["topics"].keys() - INTERNAL_TOPICS)
        check(there == expected, Invariant.TOPICS_KEPT, f"there are the topics {there}, not {expected}")
        for load in self._loads:
            load.judge(before)
        await self._broker.stop()

    async def _settled_state(self) -> dict[str, Any]:
        """The state once it no longer changes, and sessions of members that have died have expired."""
        before = await self._state()
        while True:
            await trio.sleep(15)
            now = await self._state()
            if now == before:
                return now
            before = now

    async def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = {"topics": await self._inspector.topics()}
        for load in self._loads:
            state.update(await load.state())
        return state


def main() -> int:
    """Run one seed from the command line."""
    parser = argparse.ArgumentParser(description="simulate one broker")
    parser.add_argument("seed", type=int)
    parser.add_argument("--trace", action="store_true", help="print the newest events")
    parser.add_argument("--load", action="append", choices=ALL, help="only this load; may be repeated")
    options = parser.parse_args()
    result = simulate(options.seed, loads=tuple(options.load or ALL))
    if options.trace:
        print("\n".join(result.trace))
    print(result.failure or "passed", *(f"{name}={count}" for name, count in sorted(result.tally.items())))
    print(f"events={result.events}")
    print(result.digest)
    return bool(result.failure)


if __name__ == "__main__":
    sys.exit(main())
