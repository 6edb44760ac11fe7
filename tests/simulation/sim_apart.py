"""A cluster of one controller without a broker and three brokers, so that any broker may fail without the controller.

And a transactional producer that sends single requests and returns the errors, for tests of a sequence of events.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import trio

from odradek.coordinator.metadata.image.image import PartitionImage
from odradek.gateway.assembly import Services
from odradek.gateway.testing.simulation import World, run_virtually
from odradek.gateway.testing.simulation.broker_host import BrokerHost
from odradek.gateway.testing.simulation.cluster.access import ClusterAccess, ClusterClient
from odradek.gateway.testing.simulation.loads.client import SimClient, UnreachableError
from odradek.gateway.testing.simulation.loads.transactional_producer import VERSIONS
from odradek.wire.api_keys import ApiKey
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.wire.messages.end_txn import EndTxnRequest
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.records.batch import iter_headers
from odradek.wire.records.builder import SimpleRecord, build_batch
from odradek.wire.records.reader import read_records
from odradek.wire.schema.schema import Message

CONTROLLER = 100
BROKERS = (1, 2, 3)
TOPIC = "t"
STATE_TOPIC = "__transaction_state"
AGAIN = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
BY_HAND = {ApiKey.DESCRIBE_PRODUCERS: 0, ApiKey.DESCRIBE_TRANSACTIONS: 0, ApiKey.LIST_TRANSACTIONS: 1}
BY_HAND |= {ApiKey.WRITE_TXN_MARKERS: 1}


def settings(node: int) -> dict[str, str]:
    listeners = "CONTROLLER://node-100:9093" if node == CONTROLLER else f"PLAINTEXT://node-{node}:9092"
    return {
        "node.id": str(node),
        "process.roles": "controller" if node == CONTROLLER else "broker",
        "listeners": listeners,
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"{CONTROLLER}@node-{CONTROLLER}:9093",
        "default.replication.factor": "3",
        "min.insync.replicas": "2",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "3",
        "transaction.state.log.min.isr": "1",
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        "replica.lag.time.max.ms": "4000",
        "unclean.leader.election.interval.ms": "1000",
    }


class Cluster:
    """The machines, and clients that find leaders and coordinators, or send requests to one broker."""

    def __init__(self, world: World, nursery: trio.Nursery) -> None:
        self.world = world
        self.nursery = nursery
        self.hosts = {
            node: BrokerHost(world, f"node-{node}", settings=settings(node)) for node in (CONTROLLER, *BROKERS)
        }
        self.access = ClusterAccess(world, {node: (f"node-{node}", 9092) for node in BROKERS})
        self.client = self.access.client("client", VERSIONS[2])

    async def start(self, *nodes: int) -> None:
        for node in nodes:
            self.hosts[node].start(self.nursery)
        for node in nodes:
            await self.hosts[node].ready()
            with trio.fail_after(60):
                await self.services(node).life.ready.wait()

    def services(self, node: int) -> Services:
        broker = self.hosts[node].broker
        assert broker is not None
        return broker.services

    async def crash(self, node: int) -> None:
        """Cut the power of a node, so that it loses what was not synced."""
        await self.hosts[node].crash(power_cut=True)

    def part(self, topic: str = TOPIC, index: int = 0) -> PartitionImage:
        """The controller's image of a partition."""
        found = self.services(CONTROLLER).metadata.image.topic(topic)
        assert found is not None
        return found.partitions[index]

    async def until(self, condition: Callable[[], bool], what: str = "") -> None:
        with trio.move_on_after(120):
            while not condition():  # noqa: ASYNC110 - only the nodes know
                await trio.sleep(0.1)
        assert condition(), what

    async def isr_is(self, *isr: int, topic: str = TOPIC, index: int = 0) -> None:
        await self.until(lambda: sorted(self.part(topic, index).isr) == sorted(isr), f"not {isr}")

    async def in_sync(self, *topics: str) -> None:
        for topic in topics:
            found = self.services(CONTROLLER).metadata.image.topic(topic)
            assert found is not None
            for index, part in enumerate(found.partitions):
                await self.isr_is(*part.replicas, topic=topic, index=index)

    async def create(self, replicas: list[tuple[int, ...]], **configs: str) -> None:
        """Create the topic with the given replicas of each partition; the first is the leader."""
        given = tuple(CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items())
        places = tuple(
            CreatableReplicaAssignment(partition_index=index, broker_ids=ids) for index, ids in enumerate(replicas)
        )
        topic = CreatableTopic(name=TOPIC, num_partitions=-1, replication_factor=-1, assignments=places, configs=given)
        response = await self.ask(CreateTopicsRequest(topics=(topic,), timeout_ms=10_000))
        assert response.topics[0].error_code == 0, response

    async def ask(self, request: Message, client: ClusterClient | None = None) -> Any:
        """Send a request to the broker that it is for, until there is an answer."""
        with trio.fail_after(120):
            while True:
                try:
                    return await (client or self.client).call(request)
                except UnreachableError:
                    await trio.sleep(0.1)

    async def ask_node(self, node: int, request: Message) -> Any:
        """Send a request to one broker."""
        client = SimClient(self.world, "client", (f"node-{node}", 9092), BY_HAND)
        answer = await client.call(request)
        client.close()
        return answer

    async def write(self, value: bytes, index: int = 0, acks: int = -1) -> ErrorCode:
        records = memoryview(build_batch([SimpleRecord(None, value)]))
        return ErrorCode(await self._produce(records, index, acks))

    async def _produce(self, records: memoryview, index: int, acks: int) -> int:
        data = TopicProduceData(name=TOPIC, partition_data=(PartitionProduceData(index=index, records=records),))
        answer = await self.ask_node(
            self.part(TOPIC, index).leader, ProduceRequest(acks=acks, timeout_ms=2000, topic_data=(data,))
        )
        return answer.responses[0].partition_responses[0].error_code

    async def read(self, index: int = 0, *, committed: bool = True) -> tuple[list[bytes], bool]:
        """The values without those of aborted transactions, and True if no transaction is undecided."""
        wanted = FetchTopic(topic=TOPIC, partitions=(FetchPartition(partition=index, partition_max_bytes=1 << 20),))
        request = FetchRequest(max_wait_ms=0, max_bytes=1 << 20, isolation_level=int(committed), topics=(wanted,))
        [part] = (await self.ask(request)).responses[0].partitions
        chunk, values = memoryview(bytes(part.records or b"")), list[bytes]()
        aborted = sorted((each.first_offset, each.producer_id) for each in part.aborted_transactions or ())
        for header in iter_headers(chunk):
            found = [each for each in aborted if each[0] <= header.base_offset and each[1] == header.producer_id]
            if header.is_control:
                aborted = [each for each in aborted if each not in found]
            elif not found:
                values += [record.value or b"" for record in read_records(chunk, header)]
        stable = part.last_stable_offset if committed else part.high_watermark
        return values, stable == part.high_watermark

    async def until_decided(self, index: int = 0) -> None:
        """Wait until no transaction is undecided."""
        with trio.fail_after(60):
            while not (await self.read(index))[1]:  # noqa: ASYNC110 - only the broker knows
                await trio.sleep(0.1)

    async def reads(self, values: list[bytes], index: int = 0, *, undecided: bool = False) -> None:
        """Wait until the committed values are `values`, followed by undecided ones if and only if `undecided`."""
        seen = ([b"nothing was read"], False)
        with trio.move_on_after(60):
            while seen != (values, not undecided):
                seen = await self.read(index)
                await trio.sleep(0.1)
        assert seen == (values, not undecided)


class Producer:
    """A producer with `transaction.version` 1 or 2; each step repeats its request after retriable errors."""

    def __init__(self, cluster: Cluster, name: str, version: int) -> None:
        self.cluster = cluster
        self.name = name
        self.version = version
        self.client = cluster.access.client(f"producer-{name}", VERSIONS[version])
        self.sequences: dict[int, int] = {}

    async def _until_answered(self, request: Message, code_of: Callable[[Any], int]) -> Any:
        with trio.fail_after(120):
            while True:
                answer = await self.cluster.ask(request, self.client)
                if code_of(answer) not in AGAIN:
                    return answer
                await trio.sleep(0.1)

    async def take_over(self) -> None:
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=600_000)
        given = await self._until_answered(request, lambda answer: answer.error_code)
        assert given.error_code == 0, given
        self.id, self.epoch, self.sequences = given.producer_id, given.producer_epoch, {}

    async def write(self, value: bytes, index: int = 0) -> ErrorCode:
        if self.version == 1:
            await self._add(index)
        sequence = self.sequences.get(index, 0)
        batch = build_batch(
            [SimpleRecord(None, value)],
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        part = PartitionProduceData(index=index, records=memoryview(batch))
        data = TopicProduceData(name=TOPIC, partition_data=(part,))
        request = ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=30_000, topic_data=(data,))
        answer = await self._until_answered(request, lambda got: got.responses[0].partition_responses[0].error_code)
        error = ErrorCode(answer.responses[0].partition_responses[0].error_code)
        if not error:
            self.sequences[index] = sequence + 1
        return error

    async def _add(self, index: int) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=(AddPartitionsToTxnTopic(name=TOPIC, partitions=(index,)),),
        )
        code = lambda got: got.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code  # noqa: E731
        assert code(await self._until_answered(request, code)) == 0

    def ending(self, *, committed: bool) -> EndTxnRequest:
        """The request that ends the current transaction."""
        return EndTxnRequest(
            transactional_id=self.name, producer_id=self.id, producer_epoch=self.epoch, committed=committed
        )

    async def send_end(self, request: EndTxnRequest) -> Any:
        return await self._until_answered(request, lambda got: got.error_code)

    async def end(self, *, committed: bool) -> ErrorCode:
        """End the current transaction, and continue with the epoch in the answer."""
        answer = await self.send_end(self.ending(committed=committed))
        if not answer.error_code and self.version == 2:
            self.id, self.epoch, self.sequences = answer.producer_id, answer.producer_epoch, {}
        return ErrorCode(answer.error_code)


def with_cluster(seed: int, play: Callable[[Cluster], Awaitable[None]]) -> None:
    async def main() -> None:
        world = World(seed)
        world.network.faults.delay_ms = (0.1, 5)
        async with trio.open_nursery() as nursery:
            cluster = Cluster(world, nursery)
            await cluster.start(CONTROLLER)
            await cluster.start(*BROKERS)
            await play(cluster)
            nursery.cancel_scope.cancel()
        world.close()

    run_virtually(seed, main)
