"""One production broker under faults, with producers and a consumer group, judged by an oracle.

    python tests/simulation/sim_one_broker.py SEED [--trace]

runs one seed, prints its digest and, when it fails, why and the newest events.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import trio
from sim_admin import SimAdmin
from sim_client import SimClient, UnreachableError
from sim_consumer import SimMember, raise_for, values_of
from sim_nemesis import Nemesis
from sim_oracle import Invariant, Oracle, Violation, check
from sim_producer import SimProducer

from odradek.gateway.errors import StartError
from odradek.gateway.testing.simulation import World, run_virtually
from odradek.gateway.testing.simulation.broker_host import BrokerHost
from odradek.gateway.testing.simulation.disk import Medium, VolatileMedium
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from odradek.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from odradek.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.wire.messages.metadata import MetadataRequest, MetadataResponse
from odradek.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from odradek.wire.schema.schema import Message

TOPIC, PARTITIONS, GROUP = "events", 4, "readers"
BROKER = ("broker-1", 9092)
FAULTS_UNTIL_S = 30.0
PATIENCE_S = 600.0
"""How long, in virtual time and without faults, everything may take to come to its end."""
ROUNDS = 25
SETTINGS = {
    "odradek.storage": "memory://",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "500",
    "group.min.session.timeout.ms": "1000",
}
NO_SYNCS = {"log.flush.interval.messages": "9223372036854775807"}
OFFSETS_TOPIC = "__consumer_offsets"


@dataclass(frozen=True)
class Result:
    """How a simulation went.

    `failure` is empty when it went well; `invariant` is None then, and when what failed is no promise of the broker.
    """

    seed: int
    digest: str
    events: int
    records: int
    faults: Mapping[str, int]
    failure: str
    invariant: Invariant | None
    trace: tuple[str, ...]

    def explain(self) -> str:
        command = f"python tests/simulation/sim_one_broker.py {self.seed} --trace"
        return f"seed {self.seed}: {self.failure}\nreproduce with: {command}\n" + "\n".join(self.trace[-60:])


def simulate(seed: int, medium: Callable[[], Medium] = VolatileMedium, *, syncs: bool = True) -> Result:
    """Run the simulation that `seed` stands for. What fails is in the result, whatever it is.

    Without `syncs` the broker leaves commits to the operating system, and no power cuts come.
    """
    world = World(seed, medium)
    oracle = Oracle()
    failure, invariant = "", None
    simulation = _Simulation(world, oracle, syncs=syncs)
    try:
        run_virtually(seed, simulation.run)
    except Exception as error:  # noqa: BLE001 - told with its seed by whoever asked
        cause = _first_cause(error)
        failure = f"{type(cause).__name__}: {cause}"
        invariant = _broken(cause)
    finally:
        world.close()
    trace = tuple(map(str, world.trace.newest()))
    faults = simulation.nemesis.done
    return Result(seed, world.trace.digest, world.trace.count, len(oracle.read), faults, failure, invariant, trace)


def _broken(cause: BaseException) -> Invariant | None:
    """Which promise the failure breaks; None for a defect of the simulation itself."""
    if isinstance(cause, Violation):
        return cause.invariant
    return Invariant.STARTS_AGAIN if isinstance(cause, StartError) else None


def _first_cause(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = next((each for each in error.exceptions if isinstance(each, Violation)), error.exceptions[0])
    return error


class _Simulation:
    def __init__(self, world: World, oracle: Oracle, *, syncs: bool) -> None:
        self._world = world
        self._oracle = oracle
        self._syncs = syncs
        self._broker = BrokerHost(world, *BROKER, settings=SETTINGS if syncs else {**SETTINGS, **NO_SYNCS})
        topic = (TOPIC, PARTITIONS)
        self._producers = [
            SimProducer(world, BROKER, oracle, name, topic, idempotent=idempotent)
            for name, idempotent in (("safe-1", True), ("safe-2", True), ("plain", False))
        ]
        self._members = [SimMember(world, BROKER, oracle, f"member-{number}", GROUP, topic) for number in (1, 2, 3)]
        self._admin = SimClient(world, "admin", BROKER)
        self._operator = SimAdmin(world, BROKER)
        clients = [each.name for each in (*self._producers, *self._members, self._operator)]
        self.nemesis = Nemesis(world, self._broker, clients, power_cuts=syncs)

    async def run(self) -> None:
        with self._broker.internal_errors() as internal:
            async with trio.open_nursery() as nursery:
                self._broker.start(nursery)
                await self._create_topic()
                await self._under_faults(nursery)
                await self._at_rest(nursery)
            check(not internal, Invariant.NO_INTERNAL_ERRORS, "\n".join(internal))

    async def _under_faults(self, nursery: trio.Nursery) -> None:
        async with trio.open_nursery() as clients:
            for member in self._members:
                clients.start_soon(member.run)
            async with trio.open_nursery() as harm:
                harm.start_soon(self._operator.run)
                for producer in self._producers:
                    harm.start_soon(producer.run, ROUNDS)
                await self.nemesis.run(nursery, FAULTS_UNTIL_S)
                self._operator.finish()
                harm.cancel_scope.deadline = trio.current_time() + PATIENCE_S
            check(not harm.cancel_scope.cancelled_caught, Invariant.LIVENESS, "the clients did not come to an end")
            with trio.move_on_after(PATIENCE_S) as waiting:
                await self._all_read()
            check(not waiting.cancelled_caught, Invariant.LIVENESS, "the group did not read everything")
            for member in self._members:
                member.stop()

    async def _all_read(self) -> None:
        ends = await self._end_offsets()
        while await self._committed() != ends:  # noqa: ASYNC110 - the group is the other side of a network
            await trio.sleep(1)

    async def _at_rest(self, nursery: trio.Nursery) -> None:
        """Nothing may change by a crash, and in the end everything must be as clients were told."""
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
        expected = sorted([TOPIC, OFFSETS_TOPIC, *self._operator.topics])
        check(
            sorted(before["topics"]) == expected,
            Invariant.TOPICS_KEPT,
            f"there are the topics {before['topics']}, not {expected}",
        )
        self._oracle.judge({index: before[f"partition {index}"] for index in range(PARTITIONS)})
        await self._broker.stop()

    async def _settled_state(self) -> dict[str, Any]:
        """The state once everything that was still under way has arrived, and sessions that nobody left are over."""
        before = await self._state()
        while True:
            await trio.sleep(15)
            now = await self._state()
            if now == before:
                return now
            before = now

    async def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = {f"partition {index}": await self._values(index) for index in range(PARTITIONS)}
        state["end offsets"] = await self._end_offsets()
        state["committed offsets"] = await self._committed()
        state["topics"] = await self._topics()
        state["group"] = await self._group_state()
        return state

    async def _ask(self, request: Message) -> Message:
        while True:
            try:
                return await self._admin.call(request)
            except UnreachableError:
                await trio.sleep(0.2)

    async def _create_topic(self) -> None:
        topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
        answer = await self._ask(CreateTopicsRequest(topics=(topic,), timeout_ms=5000))
        assert isinstance(answer, CreateTopicsResponse)
        check(
            not answer.topics[0].error_code,
            Invariant.ADMIN_ACCEPTED,
            f"cannot create the topic: {answer.topics[0].error_message}",
        )

    async def _topics(self) -> dict[str, tuple[str, int]]:
        """Ids and numbers of partitions by name."""
        answer = await self._ask(MetadataRequest(topics=None))
        assert isinstance(answer, MetadataResponse)
        return {topic.name or "": (str(topic.topic_id), len(topic.partitions)) for topic in answer.topics}

    async def _end_offsets(self) -> dict[int, int]:
        parts = tuple(ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(PARTITIONS))
        topic = ListOffsetsTopic(name=TOPIC, partitions=parts)
        answer = await self._ask(ListOffsetsRequest(replica_id=-1, topics=(topic,)))
        assert isinstance(answer, ListOffsetsResponse)
        for part in answer.topics[0].partitions:
            check(not part.error_code, Invariant.SERVES, f"ListOffsets: {part.error_code}")
        return {part.partition_index: part.offset for part in answer.topics[0].partitions}

    async def _committed(self) -> dict[int, int]:
        topic = OffsetFetchRequestTopics(name=TOPIC, partition_indexes=tuple(range(PARTITIONS)))
        request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=GROUP, topics=(topic,)),))
        while True:
            answer = await self._ask(request)
            assert isinstance(answer, OffsetFetchResponse)
            group = answer.groups[0]
            if group.error_code == ErrorCode.NONE:
                return {part.partition_index: part.committed_offset for part in group.topics[0].partitions}
            await trio.sleep(0.2)

    async def _group_state(self) -> str:
        answer = await self._ask(DescribeGroupsRequest(groups=(GROUP,)))
        assert isinstance(answer, DescribeGroupsResponse)
        raise_for(answer.groups[0].error_code)
        return repr(answer.groups[0])

    async def _values(self, partition: int) -> list[str]:
        found: list[str] = []
        while True:
            part = FetchPartition(partition=partition, fetch_offset=len(found), partition_max_bytes=1_000_000)
            topic = FetchTopic(topic=TOPIC, partitions=(part,))
            answer = await self._ask(FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1_000_000, topics=(topic,)))
            assert isinstance(answer, FetchResponse)
            data = answer.responses[0].partitions[0]
            check(not data.error_code, Invariant.SERVES, f"Fetch: {data.error_code}")
            values = values_of(data, len(found))
            self._oracle.was_read("final reader", partition, len(found), data.high_watermark, values)
            if not values:
                return found
            found.extend(value for _, value in values)


def main() -> int:
    """Run one seed from the command line."""
    parser = argparse.ArgumentParser(description="simulate one broker")
    parser.add_argument("seed", type=int)
    parser.add_argument("--trace", action="store_true", help="print the newest events")
    options = parser.parse_args()
    result = simulate(options.seed)
    if options.trace:
        print("\n".join(result.trace))
    print(result.failure or "passed", f"records={result.records} events={result.events}")
    print(result.digest)
    return bool(result.failure)


if __name__ == "__main__":
    sys.exit(main())
