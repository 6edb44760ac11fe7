"""A small synchronous client over our own wire messages: fetches raw record batches from any Kafka, and imports them to
an Odradek.

It finds leaders, updates them when they change, and retries retriable errors until `timeout_s` has passed. A client is
for one thread. It needs memory for one request and one response.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeVar, cast
from uuid import UUID

from odradek.gateway.cli.client import split_address
from odradek.pipeline.connection import Connection
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.topic_partition import Offsets, TopicPartition
from odradek.pipeline.wire_socket import ConnectionLostError, WireSocket, error_name
from odradek.wire.api_keys import ADVERTISED, ApiKey
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from odradek.wire.messages.import_batches import (
    ImportBatchesRequest,
    ImportBatchesResponse,
    ImportPartition,
    ImportTopic,
)
from odradek.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from odradek.wire.schema.schema import Message
from odradek.wire.schema.types import ZERO_UUID, Buffer

M = TypeVar("M", bound=Message)
T = TypeVar("T")

FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 1.0
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
NO_BYTES: Final = memoryview(b"")

RETRIABLE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    }
)
"""Temporary errors: the metadata is requested again, and the request retried."""

_OURS: Final[Mapping[ApiKey, tuple[int, int]]] = {
    **ADVERTISED,
    ApiKey.FETCH: (4, 16),
    ApiKey.METADATA: (4, 12),
    ApiKey.LIST_OFFSETS: (1, 9),
    ApiKey.FIND_COORDINATOR: (0, 3),
    ApiKey.LIST_GROUPS: (4, 5),
    ApiKey.OFFSET_COMMIT: (2, 9),
    ApiKey.OFFSET_FETCH: (2, 7),
}
"""The supported versions. Fetch 17 and 18 are for replicas. In these versions requests for groups are for one group,
and name topics instead of their ids.
"""


class TopicGoneError(PipelineError):
    """The topic does not exist, or was deleted, or deleted and recreated."""

    def __init__(self, topic: str, message: str) -> None:
        super().__init__(message)
        self.topic = topic


class BrokerError(PipelineError):
    """A broker returned an error; `code` is Kafka's."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class TopicInfo(NamedTuple):
    """A topic: its id (zero from brokers without ids) and the leader of each partition, -1 if there is none."""

    topic_id: UUID
    leaders: tuple[int, ...]


class Fetched(NamedTuple):
    """A Fetch response for one partition. `records` are whole batches, except that the last one may be incomplete.
    `error` is 0, OFFSET_OUT_OF_RANGE or another code that is not retried. Offsets are -1 if it is not 0. `aborted` are
    the producer ids and first offsets of aborted transactions that may have records in `records`; only with
    `READ_COMMITTED`.
    """

    error: int
    records: memoryview
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: tuple[tuple[int, int], ...] = ()


class Imported(NamedTuple):
    """An ImportBatches response for one partition: 0 or Kafka's error code, and the log end offset, -1 if unknown."""

    error: int
    message: str | None
    log_end_offset: int


class WireClient:
    """Open with `with WireClient(connection) as client`; connections are opened at first use.

    Methods raise PipelineError: ConnectionLostError when no broker could be reached for `timeout_s`, TopicGoneError,
    BrokerError.
    """

    def __init__(self, connection: Connection) -> None:
        self._settings = {name: str(value) for name, value in connection.for_librdkafka().items()}
        self._bootstrap = [split_address(one.strip()) for one in connection.bootstrap.split(",")]
        self.timeout_s = connection.timeout_s
        self._sockets: dict[tuple[str, int], WireSocket] = {}
        self._brokers: dict[int, tuple[str, int]] = {}
        self._topics: dict[str, TopicInfo] = {}
        self._fetched: dict[str, UUID] = {}
        self.cluster_id = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; they are reopened at the next use."""
        for one in self._sockets.values():
            one.close()
        self._sockets.clear()

    # Any request

    def request(self, message: Message, response: type[M], node: int | None = None, *, newest: int | None = None) -> M:
        """Send a request once, to a broker by its id or to any, in version `newest` at most.

        Raises ConnectionLostError, PipelineError.
        """
        try:
            return self._sent(message, response, node, newest)
        except ConnectionLostError:
            self._topics.clear()  # other brokers may lead the partitions by now
            raise

    def _sent(self, message: Message, response: type[M], node: int | None, newest: int | None) -> M:
        key = ApiKey(message.__message__.api_key or 0)
        with_node = self._any_socket() if node is None else self._socket(self._address(node))
        first, last = _OURS[key]
        version = with_node.version_of(key, (first, last if newest is None else min(last, newest)))
        if version is None:
            raise PipelineError(f"{with_node.address} has no version of {key.name} that is known here")
        try:
            return with_node.request(message, version, response)
        except ConnectionLostError:
            self._forget(with_node)
            raise

    def has_api(self, key: ApiKey) -> bool:
        """Return True if the cluster supports a version of `key` that this client supports."""
        return self.repeated(lambda: self._any_socket().version_of(key, _OURS[key]) is not None)

    def repeated(self, attempt: Callable[[], T]) -> T:
        """Return the result of `attempt`, which is retried, with pauses, while it raises temporary errors, for
        `timeout_s` at most.
        """
        deadline, pause_s = time.monotonic() + self.timeout_s, FIRST_PAUSE_S
        while True:
            try:
                return attempt()
            except (ConnectionLostError, BrokerError) as error:
                passing = isinstance(error, ConnectionLostError) or error.code in RETRIABLE
                if not passing or time.monotonic() + pause_s > deadline:
                    raise
            self._topics.clear()
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _any_socket(self) -> WireSocket:
        for one in self._sockets.values():
            return one
        addresses = [*self._brokers.values(), *self._bootstrap]
        for number, address in enumerate(addresses, 1):
            try:
                return self._socket(address)
            except ConnectionLostError:
                if number == len(addresses):
                    raise
        raise AssertionError("there is at least one bootstrap address")

    def _socket(self, address: tuple[str, int]) -> WireSocket:
        found = self._sockets.get(address)
        if found is None:
            found = self._sockets[address] = WireSocket(*address, self._settings, self.timeout_s)
        return found

    def _address(self, node: int) -> tuple[str, int]:
        found = self._brokers.get(node)
        if found is None:  # the metadata was requested again since the id was found
            raise ConnectionLostError(f"broker {node} is not in the cluster's metadata")
        return found

    def _forget(self, lost: WireSocket) -> None:
        self._sockets = {address: one for address, one in self._sockets.items() if one is not lost}

    # Metadata

    def topics(self, names: Iterable[str] | None = None) -> dict[str, TopicInfo]:
        """Return the existing topics, of `names` or all. Does not create topics."""
        wanted = None if names is None else tuple([MetadataRequestTopic(name=name) for name in names])
        answer = self.repeated(lambda: self._metadata(wanted))
        found: dict[str, TopicInfo] = {}
        for topic in answer.topics:
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or topic.name is None:
                continue
            check(topic.error_code, f"topic {topic.name!r}")
            parts = sorted(topic.partitions, key=lambda part: part.partition_index)
            found[topic.name] = TopicInfo(topic.topic_id, tuple([part.leader_id for part in parts]))
        self._topics |= found
        return found

    def _metadata(self, wanted: tuple[MetadataRequestTopic, ...] | None) -> MetadataResponse:
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        answer = self.request(request, MetadataResponse)
        if answer.brokers:
            self._brokers = {one.node_id: (one.host, one.port) for one in answer.brokers}
        self.cluster_id = answer.cluster_id or self.cluster_id
        return answer

    def topic(self, name: str) -> TopicInfo:
        """Return one topic, from the cached metadata. Raises TopicGoneError."""
        found = self._topics.get(name) or self.topics([name]).get(name)
        if found is None:
            raise TopicGoneError(name, f"there is no topic {name!r}")
        return found

    def by_leader(self, places: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Return the partitions by leader. Raises TopicGoneError, and BrokerError for a partition without a leader."""
        found: dict[int, list[TopicPartition]] = {}
        for place in places:
            leaders = self.topic(place.topic).leaders
            leader = leaders[place.partition] if place.partition < len(leaders) else -1
            if leader not in self._brokers:
                raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, f"{place.topic}-{place.partition} has no leader")
            found.setdefault(leader, []).append(place)
        return found

    def nodes(self) -> list[int]:
        """Return the ids of the cluster's brokers."""
        if not self._brokers:
            self.topics(())
        return list(self._brokers)

    def add_broker(self, node: int, host: str, port: int) -> None:
        """Note the address of a broker, which may be newer than the metadata."""
        self.nodes()
        self._brokers[node] = (host, port)

    # Offsets

    def list_offsets(
        self, places: Iterable[TopicPartition], timestamp: int, isolation: int = READ_UNCOMMITTED
    ) -> Offsets:
        """Return the offset of each partition at EARLIEST, LATEST or a time in ms; -1 if no record is from that time or
        later.
        """
        wanted = list(places)
        return self.repeated(lambda: self._list_offsets(wanted, timestamp, isolation))

    def _list_offsets(self, places: Sequence[TopicPartition], timestamp: int, isolation: int) -> Offsets:
        found: Offsets = {}
        for leader, led in self.by_leader(places).items():
            topics = tuple(
                [
                    ListOffsetsTopic(
                        name=topic,
                        partitions=tuple(
                            [ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in indexes]
                        ),
                    )
                    for topic, indexes in _by_topic(led)
                ]
            )
            request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics)
            for topic in self.request(request, ListOffsetsResponse, leader).topics:
                for part in topic.partitions:
                    check(part.error_code, f"the offsets of {topic.name}-{part.partition_index}")
                    found[TopicPartition(topic.name, part.partition_index)] = part.offset
        return found

    # Records

    def fetch(
        self,
        positions: Mapping[TopicPartition, int],
        *,
        max_bytes: int,
        partition_max_bytes: int,
        max_wait_ms: int = 500,
        isolation: int = READ_UNCOMMITTED,
    ) -> dict[TopicPartition, Fetched]:
        """Fetch the stored batches from each position on, at most `max_bytes` from each leader, one leader after the
        other.

        The batch that contains a position is returned whole. Temporary errors are retried. If the cluster has topic
        ids, a client only fetches from the topic with the id of its first fetch: raises TopicGoneError when it was
        recreated.
        """
        known = {
            name: self._fetched.setdefault(name, self.topic(name).topic_id)
            for name in {place.topic for place in positions}
        }

        def attempt() -> dict[TopicPartition, Fetched]:
            found: dict[TopicPartition, Fetched] = {}
            for leader, led in self.by_leader(positions).items():
                self._refuse_new_topics(known)
                request = _fetch_request(led, positions, known, max_bytes, partition_max_bytes, max_wait_ms, isolation)
                found |= _fetched(self.request(request, FetchResponse, leader), known)
            return found

        return self.repeated(attempt)

    def _refuse_new_topics(self, known: Mapping[str, UUID]) -> None:
        for name, topic_id in known.items():
            if self.topic(name).topic_id != topic_id:
                raise TopicGoneError(name, f"topic {name!r} was deleted and created again")

    def import_batches(
        self, records: Mapping[TopicPartition, Buffer | Sequence[Buffer]], timeout_ms: int | None = None
    ) -> dict[TopicPartition, Imported]:
        """Write whole batches at their offsets, once; to retry, send the batches from `log_end_offset` on.

        A partition's batches may be in any number of parts, which are not copied.
        Errors in the response are returned: OFFSET_OUT_OF_RANGE means that the log ends after the first batch's offset.
        After a ConnectionLostError get the log end by `list_offsets`. Raises PipelineError if the cluster does not
        support ImportBatches, TopicGoneError, and BrokerError if a partition has no leader.
        """
        found: dict[TopicPartition, Imported] = {}
        if timeout_ms is None:
            timeout_ms = round(self.timeout_s * 800)  # the broker's timeout, shorter than the socket's
        for leader, led in self.by_leader(records).items():
            topics: list[ImportTopic] = []
            for topic, indexes in _by_topic(led):
                parts = [
                    ImportPartition(index=index, records=in_parts(records[TopicPartition(topic, index)]))
                    for index in indexes
                ]
                topics.append(ImportTopic(name=topic, partitions=tuple(parts)))
            request = ImportBatchesRequest(timeout_ms=timeout_ms, topics=tuple(topics))
            for topic in self.request(request, ImportBatchesResponse, leader).topics:
                for part in topic.partitions:
                    place = TopicPartition(topic.name, part.index)
                    found[place] = Imported(part.error_code, part.error_message, part.log_end_offset)
                    if part.error_code in RETRIABLE:
                        self._topics.pop(topic.name, None)
        return found

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        """Move log starts forward. Raises BrokerError: POLICY_VIOLATION for a topic whose cleanup.policy is only
        compact.
        """
        self.repeated(lambda: self._delete_records(before))

    def _delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        for leader, led in self.by_leader(before).items():
            topics: list[DeleteRecordsTopic] = []
            for topic, indexes in _by_topic(led):
                parts = [
                    DeleteRecordsPartition(partition_index=index, offset=before[TopicPartition(topic, index)])
                    for index in indexes
                ]
                topics.append(DeleteRecordsTopic(name=topic, partitions=tuple(parts)))
            request = DeleteRecordsRequest(topics=tuple(topics), timeout_ms=round(self.timeout_s * 1000))
            for topic in self.request(request, DeleteRecordsResponse, leader).topics:
                for part in topic.partitions:
                    check(part.error_code, f"the log start of {topic.name}-{part.partition_index}")


def in_parts(parts: Buffer | Sequence[Buffer]) -> memoryview:
    """Return the value of a request's `records` in parts, which are encoded as in responses. The static type is that of
    decoded requests.
    """
    return cast("memoryview", parts)


def _by_topic(places: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    found: dict[str, list[int]] = {}
    for topic, index in places:
        found.setdefault(topic, []).append(index)
    return list(found.items())


def check(code: int, what: str) -> None:
    """Raise BrokerError for an error code in a response about `what`."""
    if code:
        raise BrokerError(code, f"{what}: {error_name(code)}")


def _fetch_request(
    led: Sequence[TopicPartition],
    positions: Mapping[TopicPartition, int],
    known: Mapping[str, UUID],
    max_bytes: int,
    partition_max_bytes: int,
    max_wait_ms: int,
    isolation: int,
) -> FetchRequest:
    topics: list[FetchTopic] = []
    for topic, indexes in _by_topic(led):
        parts = [
            FetchPartition(
                partition=index,
                fetch_offset=positions[TopicPartition(topic, index)],
                partition_max_bytes=partition_max_bytes,
            )
            for index in indexes
        ]
        topics.append(FetchTopic(topic=topic, topic_id=known[topic], partitions=tuple(parts)))
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=max_bytes, isolation_level=isolation, topics=tuple(topics)
    )


def _fetched(answer: FetchResponse, known: Mapping[str, UUID]) -> dict[TopicPartition, Fetched]:
    check(answer.error_code, "Fetch")
    names = {topic_id: name for name, topic_id in known.items() if topic_id != ZERO_UUID}
    found: dict[TopicPartition, Fetched] = {}
    for topic in answer.responses:
        name = topic.topic or names.get(topic.topic_id, "")
        for part in topic.partitions:
            if part.error_code in RETRIABLE:
                check(part.error_code, f"{name}-{part.partition_index}")
            records: Any = part.records
            found[TopicPartition(name, part.partition_index)] = Fetched(
                part.error_code,
                NO_BYTES if records is None else memoryview(records),
                part.high_watermark,
                part.last_stable_offset,
                part.log_start_offset,
                tuple([(one.producer_id, one.first_offset) for one in part.aborted_transactions or ()]),
            )
    return found
