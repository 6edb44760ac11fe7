"""Groups' committed offsets over our own wire messages.

librdkafka is not used for them: its admin client (2.16.1) crashes while a coordinator is loading its groups, as after
the start of a broker or a change of the coordinator (rd_kafka_cgrp_op in a handle without a group).
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from odradek.pipeline.topic_partition import Offsets, TopicPartition
from odradek.pipeline.wire_client import BrokerError, WireClient, check
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from odradek.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

OF_CONSUMERS: Final = frozenset({"", "classic", "consumer"})
"""The types of groups that commit offsets; brokers before Kafka 3.7 do not return types."""
WITHOUT_MEMBERS: Final = frozenset({"Empty", "Dead"})
NO_METADATA: Final[Mapping[TopicPartition, str]] = {}


class Committed(NamedTuple):
    """A committed offset with its metadata."""

    offset: int
    metadata: str


class WireGroups:
    """The groups of a client's cluster. Methods raise PipelineError as the client's do, and retry temporary errors."""

    def __init__(self, client: WireClient) -> None:
        self._client = client

    def states(self) -> dict[str, str]:
        """Return the state of each consumer group, under Kafka's name. Requires Kafka 2.6."""
        return self._client.repeated(self._states)

    def _states(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for node in self._client.nodes():
            answer = self._client.request(ListGroupsRequest(), ListGroupsResponse, node)
            check(answer.error_code, "the list of groups")
            found |= {one.group_id: one.group_state for one in answer.groups if one.group_type.lower() in OF_CONSUMERS}
        return found

    def committed(self, group: str) -> Offsets:
        """Return the group's committed offsets; empty for a group that does not exist."""
        return {place: one.offset for place, one in self.committed_whole(group).items()}

    def committed_whole(self, group: str) -> dict[TopicPartition, Committed]:
        """As `committed`, with metadata."""
        return self._client.repeated(lambda: self._committed(group))

    def _committed(self, group: str) -> dict[TopicPartition, Committed]:
        request = OffsetFetchRequest(group_id=group, topics=None)
        answer = self._client.request(request, OffsetFetchResponse, self.coordinator(group))
        check(answer.error_code, f"the offsets of group {group!r}")
        found: dict[TopicPartition, Committed] = {}
        for topic in answer.topics:
            for part in topic.partitions:
                check(part.error_code, f"the offset of group {group!r} for {topic.name}-{part.partition_index}")
                if part.committed_offset >= 0:
                    place = TopicPartition(topic.name, part.partition_index)
                    found[place] = Committed(part.committed_offset, part.metadata or "")
        return found

    def commit(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int],
        metadata: Mapping[TopicPartition, str] = NO_METADATA,
    ) -> None:
        """Commit offsets for a group without members; raises BrokerError with UNKNOWN_MEMBER_ID if it has members."""
        if offsets:
            committed = {place: Committed(offset, metadata.get(place, "")) for place, offset in offsets.items()}
            self._client.repeated(lambda: self._commit(group, committed))

    def _commit(self, group: str, offsets: Mapping[TopicPartition, Committed]) -> None:
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for place, one in offsets.items():
            part = OffsetCommitRequestPartition(
                partition_index=place.partition, committed_offset=one.offset, committed_metadata=one.metadata
            )
            topics.setdefault(place.topic, []).append(part)
        listed = [OffsetCommitRequestTopic(name=name, partitions=tuple(parts)) for name, parts in topics.items()]
        request = OffsetCommitRequest(group_id=group, topics=tuple(listed))
        answer = self._client.request(request, OffsetCommitResponse, self.coordinator(group))
        for topic in answer.topics:
            for part in topic.partitions:
                what = f"the commit of group {group!r} for {topic.name}-{part.partition_index}"
                check(part.error_code, what)

    def coordinator(self, group: str) -> int:
        """Return the id of the broker that coordinates the group. Raises BrokerError while there is none."""
        answer = self._client.request(FindCoordinatorRequest(key=group), FindCoordinatorResponse)
        check(answer.error_code, f"the coordinator of group {group!r}")
        if answer.node_id < 0:
            raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"group {group!r} has no coordinator")
        self._client.add_broker(answer.node_id, answer.host, answer.port)
        return answer.node_id
