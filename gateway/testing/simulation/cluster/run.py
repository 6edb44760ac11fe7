"""One simulated cluster from its start to the verdict.

start ─► create topics ─► load and faults ─► repair ─► the load ends ─► all state, as clients see it
─► power cut of all nodes at once ─► the same state? ─► judge: oracles, history
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final, cast

import trio

from odradek.coordinator.metadata.topic_names import CONSUMER_OFFSETS
from odradek.gateway.errors import StartError
from odradek.gateway.testing.history.checker import Contract, judge
from odradek.gateway.testing.simulation.broker_host import BrokerHost
from odradek.gateway.testing.simulation.cluster.access import ClusterAccess
from odradek.gateway.testing.simulation.cluster.assignments import Assignments
from odradek.gateway.testing.simulation.cluster.faults import Faults, mix_of
from odradek.gateway.testing.simulation.cluster.invariants import Invariants
from odradek.gateway.testing.simulation.cluster.memberships import MembersOracle
from odradek.gateway.testing.simulation.cluster.recorded import RecordedOracle, RecordedTransactions
from odradek.gateway.testing.simulation.cluster.replica_changes import ReplicaChanges
from odradek.gateway.testing.simulation.cluster.trust import TrustedBrokers
from odradek.gateway.testing.simulation.cluster.voters import VoterChanges
from odradek.gateway.testing.simulation.environment import World
from odradek.gateway.testing.simulation.loads.groups import GROUP as CREW
from odradek.gateway.testing.simulation.loads.groups import TOPIC as TASKS
from odradek.gateway.testing.simulation.loads.groups import GroupLoad
from odradek.gateway.testing.simulation.loads.load import Load
from odradek.gateway.testing.simulation.loads.oracle import Invariant, Violation, check
from odradek.gateway.testing.simulation.loads.plain import TOPIC as EVENTS
from odradek.gateway.testing.simulation.loads.plain import PlainLoad
from odradek.gateway.testing.simulation.loads.transactions import TOPIC as LEDGER
from odradek.gateway.testing.simulation.loads.transactions import TransactionLoad
from odradek.gateway.testing.simulation.scheduling import run_virtually
from odradek.partitions.metadata_log import METADATA_KEY

START_S: Final = 120.0
IN_SYNC_S: Final = 300.0
REPLICAS: Final = 3
VOTERS: Final = 3


@dataclass(frozen=True)
class Plan:
    """The parameters of a simulation.

    `seconds` is the virtual time of load under faults; `faults` are the kinds, None for those that the seed chooses.
    With one voter the voters are fixed.
    """

    seed: int
    seconds: float = 30.0
    brokers: int = 3
    faults: tuple[str, ...] | None = None
    voters: int = VOTERS

    def command(self) -> str:
        """The command that repeats the run."""
        kinds = "" if self.faults is None else f" --faults {','.join(self.faults)}"
        brokers = "" if self.brokers == REPLICAS else f" --brokers {self.brokers}"
        voters = "" if self.voters == VOTERS else f" --voters {self.voters}"
        return f"odradek simulate --seed {self.seed} --minutes {self.seconds / 60:g}{brokers}{voters}{kinds}"


@dataclass
class Result:
    """The result of a simulation; `failure` is empty if there was none, `simulated_s` is virtual time."""

    plan: Plan
    mix: tuple[str, ...]
    digest: str = ""
    events: int = 0
    simulated_s: float = 0.0
    failure: str = ""
    invariant: Invariant | None = None
    tally: Counter[str] = field(default_factory=Counter[str])
    faults: Counter[str] = field(default_factory=Counter[str])
    trace: tuple[str, ...] = ()

    @property
    def acknowledged(self) -> int:
        """The number of acknowledged records."""
        return self.tally["records acknowledged"]


def simulate(plan: Plan) -> Result:
    """Run `plan`. Any failure is returned in the result. Raises KeyboardInterrupt."""
    world = World(plan.seed)
    simulation = Simulation(world, plan)
    result = Result(plan, simulation.kinds)
    try:
        run_virtually(plan.seed, simulation.run)
    except Exception as error:  # noqa: BLE001 - it is reported with the seed
        cause = first_cause(error)
        result.failure = f"{type(cause).__name__}: {cause}"
        result.invariant = _broken(cause)
    except BaseExceptionGroup as group:
        if group.subgroup(KeyboardInterrupt) is None:
            raise
        raise KeyboardInterrupt from group
    finally:
        world.close()
    result.digest, result.events = world.trace.digest, world.trace.count
    result.simulated_s, result.tally, result.faults = simulation.ended_s, simulation.tally, simulation.done
    result.trace = tuple(map(str, world.trace.newest()))
    return result


def _broken(cause: BaseException) -> Invariant:
    if isinstance(cause, Violation):
        return cause.invariant
    return Invariant.STARTS_AGAIN if isinstance(cause, StartError) else Invariant.NO_CRASH


def first_cause(error: BaseException) -> BaseException:
    """The violation in a group of errors, or the first of them."""
    found = _leaves(error)
    return next((each for each in found if isinstance(each, Violation)), found[0])


def _leaves(error: BaseException) -> Sequence[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        inside = cast("BaseExceptionGroup[BaseException]", error).exceptions
        return [leaf for each in inside for leaf in _leaves(each)]
    return [error]


def settings_of(node: int, roles: str, voters: Sequence[int], quick: bool) -> Mapping[str, str]:
    """A node's configuration, under Kafka's names; `quick` shortens sessions and lags."""
    listeners = {
        "broker": f"PLAINTEXT://node-{node}:9092",
        "controller": f"CONTROLLER://node-{node}:9093",
    }
    settings = {
        "node.id": str(node),
        "process.roles": roles,
        "listeners": ",".join(listeners[role] for role in roles.split(",")),
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": ",".join(f"{each}@node-{each}:9093" for each in voters),
        "default.replication.factor": str(REPLICAS),
        "min.insync.replicas": "2",
        "offsets.topic.num.partitions": "2",
        "offsets.topic.replication.factor": str(REPLICAS),
        "transaction.state.log.num.partitions": "2",
        "transaction.state.log.replication.factor": str(REPLICAS),
        "transaction.state.log.min.isr": "2",
        "log.cleaner.backoff.ms": "700",
        "group.initial.rebalance.delay.ms": "500",
        "group.min.session.timeout.ms": "1000",
        "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.session.timeout.ms": "6000",
        "group.consumer.min.heartbeat.interval.ms": "500",
        "group.consumer.heartbeat.interval.ms": "1000",
    }
    if quick:
        settings |= {
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
            "replica.lag.time.max.ms": "4000",
        }
    return settings


class Simulation:
    """One run: the nodes, the faults, the clients' loads, and the checks of invariants."""

    def __init__(self, world: World, plan: Plan) -> None:
        self.kinds = mix_of(world, plan.faults)
        if plan.voters == 1:
            self.kinds = tuple([kind for kind in self.kinds if kind != "voters"])
        self.ended_s = 0.0
        self._world, self._plan = world, plan
        chance = world.chance("cluster")
        apart, quick = chance.random() < 0.25, chance.random() < 0.7
        spare = "reassign" in self.kinds and chance.random() < 0.75
        brokers = list(range(1, plan.brokers + 1 + spare))
        voters = list(range(101, 101 + plan.voters)) if apart else brokers[: plan.voters]
        roles = {node: "broker" if apart or node not in voters else "broker,controller" for node in brokers}
        roles |= dict.fromkeys(voters if apart else (), "controller")
        self._hosts = {
            node: BrokerHost(world, f"node-{node}", settings=settings_of(node, role, voters, quick), supervised=True)
            for node, role in roles.items()
        }
        self._brokers = brokers
        self._changes = VoterChanges(world, self._hosts, voters) if "voters" in self.kinds else None
        access = ClusterAccess(world, {node: (f"node-{node}", 9092) for node in brokers}, REPLICAS)
        self._events, self._ledger = RecordedOracle(EVENTS), RecordedTransactions(LEDGER)
        transactions = TransactionLoad(world, access, self._ledger)
        self._loads: list[Load] = [PlainLoad(world, access, self._events), transactions]
        self._members = MembersOracle(CREW, TASKS)
        if world.chance("members").random() < 0.5:
            self._loads.append(GroupLoad(world, access, self._members))
        self._invariants, self._assignments = Invariants(world, self._hosts), Assignments()
        self._invariants.on_committed[METADATA_KEY.topic] = self._assignments.follow
        self._invariants.on_committed[CONSUMER_OFFSETS] = self._members.follow
        self._replicas = ReplicaChanges(world, access, self._invariants, self._assignments, brokers)
        if transactions.is_compacted:
            self._invariants.compacted.add(LEDGER)
        self._found: Violation | None = None
        self._is_found = trio.Event()
        clients = [host for load in self._loads for host in load.hosts]
        self._faults = Faults(
            world,
            self._hosts,
            clients,
            voters,
            self.kinds,
            self._invariants.leaders,
            TrustedBrokers(self._invariants, brokers),
            self._replicas,
            self._changes,
        )

    @property
    def done(self) -> Counter[str]:
        """The number of faults of each kind."""
        return self._faults.done

    @property
    def tally(self) -> Counter[str]:
        """The counts of events of loads, invariants and oracles."""
        total = sum((load.tally for load in self._loads), Counter[str]())
        total += self._invariants.tally + self._assignments.tally + self._members.tally
        oracles = (self._events, self._ledger.records, self._members)
        total["records acknowledged"] = sum(len(each.acknowledged) for each in oracles)
        return total

    # The steps of one run

    async def run(self) -> None:
        """Run the simulation from start to verdict. Raises Violation."""
        self._world.on_step = self._step
        try:
            with ExitStack() as stack:
                internal = [stack.enter_context(host.internal_errors()) for host in self._hosts.values()]
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._fail_when_found)
                    await self._live(nursery)
                    nursery.cancel_scope.cancel()
                errors = [each for found in internal for each in found]
                check(not errors, Invariant.NO_INTERNAL_ERRORS, "\n".join(errors))
        finally:
            self._world.on_step = lambda _host: None
            self.ended_s = trio.current_time()

    def _step(self, host: str) -> None:
        """Check invariants. Called from production code, so a task of the simulation raises the violation instead."""
        if self._found is None:
            try:
                self._invariants.look(host)
            except Violation as violation:
                self._found = violation
                self._is_found.set()

    async def _fail_when_found(self) -> None:
        await self._is_found.wait()
        assert self._found is not None
        raise self._found

    async def _live(self, nursery: trio.Nursery) -> None:
        await self._start(nursery)
        if self._changes is not None:
            await self._changes.form()
        for load in self._loads:
            await load.set_up()
        await self._under_faults(nursery)
        await self._replicas.finish()
        before = await self._settled_state()
        with trio.move_on_after(IN_SYNC_S):
            while not self._invariants.in_sync():  # noqa: ASYNC110 - of virtual time
                await trio.sleep(1)
        out = self._invariants.out_of_sync()
        check(not out, Invariant.IN_SYNC_AGAIN, f"after {IN_SYNC_S:.0f} s these are not in sync: {out}")
        self._replicas.judge()
        for host in self._hosts.values():
            await host.crash(power_cut=True)
        await self._start(nursery)
        after = await self._state()
        for name, was in before.items():
            check(
                after[name] == was,
                Invariant.STATE_IS_REPLAY,
                f"a restart changed {name} from\n{was}\nto\n{after[name]}",
            )
        self._judge(before)
        for host in reversed(self._hosts.values()):
            with trio.move_on_after(60):
                await host.stop()
            await host.crash(power_cut=False)

    async def _start(self, nursery: trio.Nursery) -> None:
        for host in self._hosts.values():
            if not host.running:
                host.start(nursery)
        await self._until(self._all_serve, START_S, Invariant.LIVENESS, "not all brokers serve")

    def _all_serve(self) -> bool:
        found = [self._hosts[node].broker for node in self._brokers]
        return all(broker is not None and broker.services.life.ready.is_set() for broker in found)

    @staticmethod
    async def _until(condition: Callable[[], bool], limit_s: float, invariant: Invariant, message: str) -> None:
        with trio.move_on_after(limit_s):
            while not condition():  # noqa: ASYNC110 - of virtual time
                await trio.sleep(0.2)
        check(condition(), invariant, f"{message} after {limit_s:.0f} s")

    async def _under_faults(self, nursery: trio.Nursery) -> None:
        calm = trio.Event()
        working = [type(load).__name__ for load in self._loads]

        async def work(load: Load) -> None:
            await load.run(calm)
            working.remove(type(load).__name__)

        async with trio.open_nursery() as clients:
            for load in self._loads:
                clients.start_soon(work, load)
            await self._faults.run(nursery, trio.current_time() + self._plan.seconds)
            calm.set()
            clients.cancel_scope.deadline = trio.current_time() + max(load.wait_limit_s for load in self._loads)
        check(not clients.cancel_scope.cancelled_caught, Invariant.LIVENESS, f"{working} did not come to an end")

    async def _settled_state(self) -> dict[str, Any]:
        """The state once it no longer changes, and sessions of members that have died have expired."""
        before = await self._state()
        for _ in range(20):
            await trio.sleep(15)
            now = await self._state()
            if now == before:
                return now
            before = now
        raise Violation(Invariant.LIVENESS, "the state does not come to rest")

    async def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = {}
        with trio.fail_after(600):
            for load in self._loads:
                state.update(await load.state())
        return state

    def _judge(self, state: Mapping[str, Any]) -> None:
        for load in self._loads:
            load.judge(state)
        for recorder, contract in (
            (self._events.recorder, Contract(subscribes=True, read_committed=False, atomic=False)),
            (self._members.recorder, Contract(subscribes=True, read_committed=False, atomic=False)),
            (self._ledger.recorder, Contract()),
        ):
            verdict = judge(recorder.history(), contract)
            check(verdict.is_valid, Invariant.HISTORY, f"{recorder.topic}: {verdict}")
