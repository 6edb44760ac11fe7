"""A client of a cluster: it finds the leader or coordinator for a request, and finds it again when it has changed.

Errors that occur because leaders and coordinators move (`PASSING`) count as no answer: the request may or may not have
taken effect, and the load sends it again, as real clients do.
"""

import dataclasses
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar, cast

import trio

from odradek.gateway.testing.simulation.environment import World
from odradek.gateway.testing.simulation.loads.client import SimClient, UnreachableError
from odradek.wire.api_keys import ApiKey
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from odradek.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.wire.messages.describe_groups import DescribeGroupsRequest
from odradek.wire.messages.end_txn import EndTxnRequest
from odradek.wire.messages.fetch import FetchRequest, FetchResponse
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.wire.messages.heartbeat import HeartbeatRequest
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.join_group import JoinGroupRequest
from odradek.wire.messages.leave_group import LeaveGroupRequest
from odradek.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from odradek.wire.messages.offset_commit import OffsetCommitRequest
from odradek.wire.messages.offset_fetch import OffsetFetchRequest
from odradek.wire.messages.produce import ProduceRequest
from odradek.wire.messages.sync_group import SyncGroupRequest
from odradek.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from odradek.wire.schema.schema import Message

M = TypeVar("M", bound=Message)

Nodes = Mapping[int, tuple[str, int]]
"""The host and port of each broker by its id."""

GROUP, TRANSACTION = 0, 1
LOOK_UP_S: Final = 2.0
RETRY_S: Final = 0.1

PASSING: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)
"""Errors that end once the new leader or coordinator is found."""
NOT_YET_KNOWN: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
"""Errors for a topic that a broker's metadata does not contain yet; temporary for `USE_PARTITIONS`."""


class Partition(NamedTuple):
    """A request for the leader of a partition."""

    topic: str
    number: int


class Coordinator(NamedTuple):
    """A request for a coordinator."""

    key_type: int
    key: str


Target = Partition | Coordinator | None
"""The partition or coordinator that a request is for; None for any broker."""


class ClusterAccess:
    """See `Brokers`: the cluster of `nodes`."""

    is_one = False

    def __init__(self, world: World, nodes: Nodes, replication_factor: int = 3) -> None:
        self.replication_factor = replication_factor
        self._world = world
        self._nodes = nodes

    def client(self, host: str, versions: Mapping[ApiKey, int] | None = None) -> "ClusterClient":
        """See `Brokers.client`."""
        return ClusterClient(self._world, host, self._nodes, versions)


class ClusterClient:
    """See `Client`."""

    def __init__(self, world: World, host: str, nodes: Nodes, versions: Mapping[ApiKey, int] | None = None) -> None:
        self.host = host
        self.env = world.environment(host)
        self._chance: random.Random = self.env.random
        self._connections = {node: SimClient(world, host, address, versions) for node, address in nodes.items()}
        self._locks = {node: trio.Lock() for node in nodes}
        self._known: dict[Partition | Coordinator, int] = {}
        self._epochs: dict[Partition, int] = {}

    @property
    def sent_bytes(self) -> int:
        """See `Client.sent_bytes`."""
        return sum(each.sent_bytes for each in self._connections.values())

    def learn_leader_epoch(self, topic: str, partition: int, leader_epoch: int) -> None:
        """See `Client.learn_leader_epoch`."""
        place = Partition(topic, partition)
        if leader_epoch > self._epochs.get(place, -1):
            self._epochs[place] = leader_epoch
            self._known.pop(place, None)

    def close(self) -> None:
        """See `Client.close`."""
        for connection in self._connections.values():
            connection.close()

    async def call(self, request: Message, timeout_s: float = 5.0) -> Message:
        """See `Client.call`."""
        [answer] = await self.call_all([request], timeout_s)
        if answer is None:
            raise UnreachableError(type(request).__name__)
        return answer

    async def call_all(self, requests: list[Message], timeout_s: float = 5.0) -> list[Message | None]:
        """See `Client.call_all`; requests for the same broker keep their order."""
        answers: list[Message | None] = [None] * len(requests)
        until_s = trio.current_time() + timeout_s
        with trio.move_on_at(until_s):
            found: dict[int, int] = {}
            for index, request in enumerate(requests):
                if isinstance(request, FetchRequest | ListOffsetsRequest):
                    answers[index] = await self._read(request, until_s)
                else:
                    found[index] = await self._find(target_of(request))
            for_node: dict[int, list[int]] = {}
            for index, node in found.items():  # the node found last, so that batches for one partition keep their order
                target = target_of(requests[index])
                for_node.setdefault(node if target is None else self._known.get(target, node), []).append(index)
            async with trio.open_nursery() as nursery:
                for node, indexes in for_node.items():
                    nursery.start_soon(self._call_node, node, requests, indexes, answers, until_s)
        return answers

    async def _call_node(
        self, node: int, requests: list[Message], indexes: list[int], answers: list[Message | None], until_s: float
    ) -> None:
        got = await self._ask(node, [requests[index] for index in indexes], until_s)
        for index, answer in zip(indexes, got, strict=True):
            if not self._is_over(requests[index], answer):
                answers[index] = answer

    async def _ask(self, node: int, requests: list[Message], until_s: float) -> list[Message | None]:
        """Send requests to one node; only one call at a time uses its connection."""
        async with self._locks[node]:
            connection = self._connections[node]
            try:
                return await connection.call_all(requests, until_s - trio.current_time())
            except trio.Cancelled:
                connection.close()  # the answer may still come
                raise

    def _is_over(self, request: Message, answer: Message | None) -> bool:
        """True if there is no answer, or only a temporary error; then the node is looked up again."""
        if answer is not None and not any(self._passes(request, code) for code in codes_of(answer)):
            return False
        for place in places_of(request):
            self._known.pop(place, None)
        return True

    @staticmethod
    def _passes(request: Message, code: int) -> bool:
        return code in PASSING or (code in NOT_YET_KNOWN and isinstance(request, USE_PARTITIONS))

    async def _read(self, request: FetchRequest | ListOffsetsRequest, until_s: float) -> Message | None:
        """Send to all leaders at once. A Fetch may return some partitions only; ListOffsets returns all or None."""
        found = {place: await self._find(place) for place in places_of(request) if isinstance(place, Partition)}
        parts: dict[int, list[int]] = {}
        for place, node in found.items():  # a look-up for one may have found another leader of the others
            parts.setdefault(self._known.get(place, node), []).append(place.number)
        answers: list[Message] = []

        async def ask(node: int, part: Message) -> None:
            [answer] = await self._ask(node, [part], until_s)
            if not self._is_over(part, answer):
                assert answer is not None
                answers.append(answer)

        async with trio.open_nursery() as nursery:
            for node, wanted in parts.items():
                nursery.start_soon(ask, node, reduced(request, wanted, self._epochs))
        return merged(answers) if len(answers) == len(parts) or isinstance(request, FetchRequest) else None

    # Finding nodes

    async def _find(self, place: Target) -> int:
        """The node for a request. While there is none, retries until it is cancelled."""
        while True:
            if place is None:
                return self._chance.choice(list(self._connections))
            if place in self._known:
                return self._known[place]
            await (self._find_leader(place) if isinstance(place, Partition) else self._find_coordinator(place))
            if place not in self._known:
                await trio.sleep(RETRY_S)

    async def _find_leader(self, place: Partition) -> None:
        answer = await self._ask_any(MetadataRequest(topics=(MetadataRequestTopic(name=place.topic),)))
        if not isinstance(answer, MetadataResponse):
            return
        for topic in answer.topics:
            for part in topic.partitions:
                found = Partition(topic.name or "", part.partition_index)
                # A broker that was cut off may still return an older epoch, which clients ignore.
                if part.leader_id in self._connections and part.leader_epoch >= self._epochs.get(found, -1):
                    self._known[found], self._epochs[found] = part.leader_id, part.leader_epoch

    async def _find_coordinator(self, place: Coordinator) -> None:
        answer = await self._ask_any(FindCoordinatorRequest(key_type=place.key_type, coordinator_keys=(place.key,)))
        if not isinstance(answer, FindCoordinatorResponse):
            return
        [found] = answer.coordinators
        if not found.error_code and found.node_id in self._connections:
            self._known[place] = found.node_id

    async def _ask_any(self, request: Message) -> Message | None:
        node = self._chance.choice(list(self._connections))
        [answer] = await self._ask(node, [request], trio.current_time() + LOOK_UP_S)
        return answer


USE_PARTITIONS: Final = (
    ProduceRequest,
    FetchRequest,
    ListOffsetsRequest,
    AddPartitionsToTxnRequest,
    TxnOffsetCommitRequest,
)
"""Requests that a broker rejects until its metadata contains their topic."""


def target_of(request: Message) -> Target:
    """The partition or coordinator for a request that one node can answer."""
    if isinstance(request, ProduceRequest):
        topic = request.topic_data[0]
        return Partition(topic.name, topic.partition_data[0].index)
    return _coordinator_of(request)


def places_of(request: Message) -> Sequence[Partition | Coordinator]:
    """The partitions or the coordinator for a request; every partition of a Fetch or ListOffsets."""
    if isinstance(request, FetchRequest):
        [wanted] = request.topics
        return [Partition(wanted.topic, each.partition) for each in wanted.partitions]
    if isinstance(request, ListOffsetsRequest):
        [listed] = request.topics
        return [Partition(listed.name, each.partition_index) for each in listed.partitions]
    place = target_of(request)
    return () if place is None else (place,)


def _coordinator_of(request: Message) -> Coordinator | None:
    match request:
        case InitProducerIdRequest(transactional_id=None):
            return None
        case InitProducerIdRequest() | AddOffsetsToTxnRequest() | EndTxnRequest():
            return Coordinator(TRANSACTION, request.transactional_id or "")
        case AddPartitionsToTxnRequest():
            return Coordinator(TRANSACTION, request.v3_and_below_transactional_id)
        case (
            JoinGroupRequest()
            | SyncGroupRequest()
            | HeartbeatRequest()
            | LeaveGroupRequest()
            | ConsumerGroupHeartbeatRequest()
            | OffsetCommitRequest()
            | TxnOffsetCommitRequest()
        ):
            return Coordinator(GROUP, request.group_id)
        case OffsetFetchRequest():
            return Coordinator(GROUP, request.groups[0].group_id)
        case DescribeGroupsRequest():
            return Coordinator(GROUP, request.groups[0])
        case ConsumerGroupDescribeRequest():
            return Coordinator(GROUP, request.group_ids[0])
        case _:
            return None


def reduced(
    request: FetchRequest | ListOffsetsRequest, wanted: Sequence[int], epochs: Mapping[Partition, int]
) -> Message:
    """The same request for the partitions `wanted` only, with the leader epochs that are known."""
    if isinstance(request, FetchRequest):
        [topic] = request.topics
        fetched = tuple(
            dataclasses.replace(each, current_leader_epoch=epochs.get(Partition(topic.topic, each.partition), -1))
            for each in topic.partitions
            if each.partition in wanted
        )
        return dataclasses.replace(request, topics=(dataclasses.replace(topic, partitions=fetched),))
    [name] = request.topics
    listed = tuple(
        dataclasses.replace(each, current_leader_epoch=epochs.get(Partition(name.name, each.partition_index), -1))
        for each in name.partitions
        if each.partition_index in wanted
    )
    return dataclasses.replace(request, topics=(dataclasses.replace(name, partitions=listed),))


def merged(answers: Sequence[Message]) -> Message | None:
    """The answers to the parts of a request as one answer; None if there are none."""
    fetched = [each for each in answers if isinstance(each, FetchResponse)]
    if fetched:
        read = tuple(part for each in fetched for part in each.responses[0].partitions)
        [topic] = fetched[0].responses
        return dataclasses.replace(fetched[0], responses=(dataclasses.replace(topic, partitions=read),))
    listed = [each for each in answers if isinstance(each, ListOffsetsResponse)]
    if listed:
        offsets = tuple(part for each in listed for part in each.topics[0].partitions)
        [name] = listed[0].topics
        return dataclasses.replace(listed[0], topics=(dataclasses.replace(name, partitions=offsets),))
    return None


def codes_of(value: object) -> Iterator[int]:
    """Every error code in a response other than 0, at any depth."""
    for field in dataclasses.fields(cast("Any", value)):
        held: Any = getattr(value, field.name)
        if field.name.endswith("error_code"):
            if held:
                yield held
        elif isinstance(held, tuple):
            for each in cast("tuple[object, ...]", held):
                if dataclasses.is_dataclass(each):
                    yield from codes_of(each)
