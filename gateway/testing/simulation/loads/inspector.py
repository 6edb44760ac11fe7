"""A client that creates topics and reads the state of brokers. It repeats each request until it is answered."""

from collections.abc import Callable, Container, Iterable, Mapping
from typing import TypeVar

import trio

from odradek.gateway.testing.simulation.loads.client import Brokers, UnreachableError
from odradek.gateway.testing.simulation.loads.oracle import Invariant, check
from odradek.gateway.testing.simulation.loads.records import Page, read_committed_page, read_page, values_of
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from odradek.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
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

M = TypeVar("M", bound=Message)

LATEST, EARLIEST = -1, -2
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
RETRY_S = 0.2
Seen = Callable[[int, PartitionData, list[tuple[int, str]]], None]
"""Receives the position of a fetch, its answer, and the offsets and values in it."""


class Inspector:
    """A client on `host`, which faults do not cut off; each request is repeated until it is answered."""

    def __init__(self, broker: Brokers, host: str = "admin") -> None:
        self._client = broker.client(host)
        self._replication_factor = broker.replication_factor

    async def ask(self, request: Message, kind: type[M]) -> M:
        """Send a request until there is an answer."""
        while True:
            try:
                answer = await self._client.call(request)
            except UnreachableError:
                await trio.sleep(RETRY_S)
                continue
            assert isinstance(answer, kind)
            return answer

    async def create_topic(self, name: str, partitions: int, configs: Mapping[str, str] | None = None) -> None:
        """Create a topic, while there are no faults. Raises Violation."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=self._replication_factor,
            configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()),
        )
        answer = await self.ask(CreateTopicsRequest(topics=(topic,), timeout_ms=5000), CreateTopicsResponse)
        check(
            not answer.topics[0].error_code,
            Invariant.ADMIN_ACCEPTED,
            f"cannot create {name}: {answer.topics[0].error_message}",
        )

    async def topics(self) -> dict[str, tuple[str, int]]:
        """The id and the number of partitions of each topic, by name."""
        answer = await self.ask(MetadataRequest(topics=None), MetadataResponse)
        return {topic.name or "": (str(topic.topic_id), len(topic.partitions)) for topic in answer.topics}

    async def offsets(
        self,
        topic: str,
        partitions: int,
        *,
        timestamp: int = LATEST,
        isolation: int = READ_UNCOMMITTED,
        again: Container[int] = (),
    ) -> dict[int, int]:
        """The answer of ListOffsets for each partition, once none has an error of `again`. Raises Violation."""
        parts = tuple(ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in range(partitions))
        request = ListOffsetsRequest(
            replica_id=-1, isolation_level=isolation, topics=(ListOffsetsTopic(name=topic, partitions=parts),)
        )
        answer = await self.ask(request, ListOffsetsResponse)
        while any(part.error_code in again for part in answer.topics[0].partitions):
            await trio.sleep(RETRY_S)
            answer = await self.ask(request, ListOffsetsResponse)
        for part in answer.topics[0].partitions:
            check(not part.error_code, Invariant.SERVES, f"ListOffsets of {topic}: {part.error_code}")
        return {part.partition_index: part.offset for part in answer.topics[0].partitions}

    async def committed(self, group: str, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """The group's committed offsets, once its coordinator is available and none of them is pending."""
        wanted = OffsetFetchRequestTopics(name=topic, partition_indexes=tuple(partitions))
        request = OffsetFetchRequest(
            groups=(OffsetFetchRequestGroup(group_id=group, topics=(wanted,)),), require_stable=True
        )
        while True:
            [answer] = (await self.ask(request, OffsetFetchResponse)).groups
            parts = answer.topics[0].partitions if answer.error_code == ErrorCode.NONE else ()
            if parts and not any(part.error_code for part in parts):
                return {part.partition_index: part.committed_offset for part in parts}
            await trio.sleep(RETRY_S)

    async def classic_group(self, group: str) -> str:
        """The answer of DescribeGroups. Raises Violation."""
        answer = await self.ask(DescribeGroupsRequest(groups=(group,)), DescribeGroupsResponse)
        check(not answer.groups[0].error_code, Invariant.SERVES, f"DescribeGroups: {answer.groups[0].error_code}")
        return repr(answer.groups[0])

    async def epoch_group(self, group: str) -> str:
        """The answer of ConsumerGroupDescribe, or of DescribeGroups if the group is a classic one now."""
        answer = await self.ask(ConsumerGroupDescribeRequest(group_ids=(group,)), ConsumerGroupDescribeResponse)
        described = answer.groups[0]
        return (
            await self.classic_group(group) if described.error_code == ErrorCode.GROUP_ID_NOT_FOUND else repr(described)
        )

    async def owned(self, group: str) -> list[int]:
        """The partitions, of all topics, assigned to the members of a group of the new protocol, in order."""
        answer = await self.ask(ConsumerGroupDescribeRequest(group_ids=(group,)), ConsumerGroupDescribeResponse)
        given = [topic for each in answer.groups[0].members for topic in each.assignment.topic_partitions]
        return sorted(number for topic in given for number in topic.partitions)

    async def fetch(
        self, topic: str, partition: int, position: int, isolation: int = READ_UNCOMMITTED
    ) -> tuple[PartitionData, Page]:
        """One fetch. Raises Violation."""
        part = FetchPartition(partition=partition, fetch_offset=position, partition_max_bytes=1_000_000)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1_000_000,
            isolation_level=isolation,
            topics=(FetchTopic(topic=topic, partitions=(part,)),),
        )
        answer = await self.ask(request, FetchResponse)
        data = answer.responses[0].partitions[0]
        check(not data.error_code, Invariant.SERVES, f"Fetch of {topic}-{partition}: {data.error_code}")
        read = read_committed_page if isolation == READ_COMMITTED else read_page
        return data, read(data, position)

    async def values(self, topic: str, partition: int, seen: Seen, isolation: int = READ_UNCOMMITTED) -> dict[int, str]:
        """The values of a partition by offset, from its beginning to its end. `seen` receives each answer."""
        found: dict[int, str] = {}
        position = 0
        while True:
            data, page = await self.fetch(topic, partition, position, isolation)
            values = values_of(page.records)
            seen(position, data, values)
            if page.position == position:
                return found
            found.update(values)
            position = page.position
