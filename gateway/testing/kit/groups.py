"""Committed offsets and lag of consumer groups, classic ones and those of the consumer protocol (KIP-848)."""

from collections.abc import Mapping
from typing import Final

from odradek.coordinator.partitioner import partition_for
from odradek.gateway.testing.kit.access import Access
from odradek.gateway.testing.kit.errors import UnknownGroupError, UnknownTopicError, check
from odradek.gateway.testing.kit.lookup import retried, topic_names, topic_of
from odradek.gateway.testing.kit.reading import EARLIEST, LATEST, TopicReader, offsets
from odradek.gateway.testing.kit.values import CommittedOffset, TopicPartition
from odradek.wire.consumer_metadata import decode_assignment
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from odradek.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse

OFFSETS_TOPIC: Final = "__consumer_offsets"
OFFSET_FETCH_VERSION: Final = 8
FIND_COORDINATOR_VERSION: Final = 4
CONSUMER_DESCRIBE_VERSION: Final = 0
CLASSIC_DESCRIBE_VERSION: Final = 5
DEAD: Final = "Dead"
SHOWN: Final = 20
NO_CONSUMER_GROUP: Final = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})


async def committed(access: Access, group: str) -> dict[TopicPartition, CommittedOffset]:
    """The offsets that a group has committed; empty if there is no such group.

    Offsets of a transaction that is not committed do not count.
    """
    node = await _coordinator(access, group)
    return {} if node is None else await retried(access, lambda: _committed(access, group))


async def lag(access: Access, group: str) -> dict[TopicPartition, int]:
    """For each partition, the number of offsets from the group's position to the end.

    A partition that is assigned to a member, and has no committed offset, is counted from its first record. Markers of
    transactions count, as in Kafka's tools. Raises UnknownGroupError.
    """
    members = await assigned(access, group)
    offsets_of_group = await committed(access, group)
    if members is None and not offsets_of_group:
        raise UnknownGroupError(f"there is no group {group!r}: it has no member, and no committed offset")
    positions: dict[TopicPartition, int | None] = {**dict.fromkeys(members or ()), **offsets_of_group}
    found: dict[TopicPartition, int] = {}
    for topic in sorted({each.topic for each in positions}):
        found |= await retried(access, lambda topic=topic: _lag(access, topic, positions))
    return found


async def assigned(access: Access, group: str) -> list[TopicPartition] | None:
    """The partitions that the group's members have now; None if there is no such group."""
    node = await _coordinator(access, group)
    return None if node is None else await retried(access, lambda: _assigned(access, group))


def lag_text(group: str, lag: Mapping[TopicPartition, int] | None, waited_s: float) -> str:
    """The message about a group that has not caught up; `lag` is None if there is no such group."""
    if lag is None:
        return f"there is no group {group!r} after {waited_s:.1f} s"
    behind = [f"{place} by {count}" for place, count in lag.items() if count]
    more = f" and {len(behind) - SHOWN} more partitions" if len(behind) > SHOWN else ""
    return f"group {group!r} is behind after {waited_s:.1f} s: {', '.join(behind[:SHOWN])}{more}"


class CatchingUp:
    """Waits until a group has committed the ends of its partitions, by reading the log of committed offsets."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._commits: TopicReader | None = None

    async def look(self, access: Access) -> dict[TopicPartition, int] | None:
        """The group's lag; None if there is no such group."""
        if self._commits is None:
            count = await self._partitions(access)
            if count is None:
                return None
            self._commits = TopicReader(OFFSETS_TOPIC, "read_uncommitted", partition_for(self._group, count))
        await self._commits.read(access)  # before the look, so that no commit after it is missed
        try:
            return await lag(access, self._group)
        except UnknownGroupError:
            return None

    async def change(self, access: Access) -> None:
        """Return when groups of this coordinator may have changed since the look."""
        if self._commits is None:
            await access.change()
        else:
            await self._commits.read_more(access)

    @staticmethod
    async def _partitions(access: Access) -> int | None:
        try:
            return len((await retried(access, lambda: topic_of(access, OFFSETS_TOPIC))).leaders)
        except UnknownTopicError:
            return None


async def _coordinator(access: Access, group: str) -> int | None:
    """The id of the group's coordinator; None while there are no groups, whose log this must not create."""
    if OFFSETS_TOPIC not in await topic_names(access):
        return None
    return await retried(access, lambda: _found_coordinator(access, group))


async def _found_coordinator(access: Access, group: str) -> int:
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=(group,))
    [found] = (await access.ask(request, FindCoordinatorResponse, FIND_COORDINATOR_VERSION)).coordinators
    check(found.error_code, f"the coordinator of group {group!r}", found.error_message)
    return found.node_id


async def _committed(access: Access, group: str) -> dict[TopicPartition, CommittedOffset]:
    node = await _found_coordinator(access, group)
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group, topics=None),))
    [answer] = (await access.ask(request, OffsetFetchResponse, OFFSET_FETCH_VERSION, node)).groups
    check(answer.error_code, f"the offsets of group {group!r}")
    return {
        TopicPartition(topic.name, part.partition_index): CommittedOffset(part.committed_offset, part.metadata or "")
        for topic in sorted(answer.topics, key=lambda each: each.name)
        for part in sorted(topic.partitions, key=lambda each: each.partition_index)
        if part.committed_offset >= 0
    }


async def _assigned(access: Access, group: str) -> list[TopicPartition] | None:
    node = await _found_coordinator(access, group)
    request = ConsumerGroupDescribeRequest(group_ids=(group,))
    [found] = (await access.ask(request, ConsumerGroupDescribeResponse, CONSUMER_DESCRIBE_VERSION, node)).groups
    if found.error_code in NO_CONSUMER_GROUP:
        return await _assigned_of_classic(access, group, node)
    check(found.error_code, f"group {group!r}", found.error_message)
    return sorted(
        TopicPartition(each.topic_name, index)
        for member in found.members
        for each in member.assignment.topic_partitions
        for index in each.partitions
    )


async def _assigned_of_classic(access: Access, group: str, node: int) -> list[TopicPartition] | None:
    request = DescribeGroupsRequest(groups=(group,))
    [found] = (await access.ask(request, DescribeGroupsResponse, CLASSIC_DESCRIBE_VERSION, node)).groups
    check(found.error_code, f"group {group!r}")
    if found.group_state == DEAD:
        return None
    if found.protocol_type != "consumer":
        return []
    return sorted(
        TopicPartition(each.topic, index)
        for member in found.members
        if member.member_assignment
        for each in decode_assignment(member.member_assignment).assigned_partitions
        for index in each.partitions
    )


async def _lag(access: Access, name: str, positions: Mapping[TopicPartition, int | None]) -> dict[TopicPartition, int]:
    try:
        topic = await topic_of(access, name)
    except UnknownTopicError:  # deleted since
        return {}
    found: dict[TopicPartition, int] = {}
    for index, leader in topic.leaders.items():
        place = TopicPartition(name, index)
        if place in positions:
            end = await _offset(access, place, leader, LATEST)
            position = positions[place]
            if position is None:
                position = await _offset(access, place, leader, EARLIEST)
            found[place] = max(end - position, 0)
    return dict(sorted(found.items()))


async def _offset(access: Access, place: TopicPartition, leader: int, timestamp: int) -> int:
    found = await offsets(access, place.topic, [place.partition], leader, timestamp, "read_uncommitted")
    return found[place.partition]
