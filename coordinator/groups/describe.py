"""DescribeGroups 0 to 6, ListGroups 0 to 5 and DeleteGroups 0 to 2."""

from odradek.coordinator.groups import records
from odradek.coordinator.groups.classic.consumer_protocol import PROTOCOL_TYPE
from odradek.coordinator.groups.classic.group import ClassicGroup, Member
from odradek.coordinator.groups.classic.states import GroupState
from odradek.coordinator.groups.consumer import records as consumer_records
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.groups.decision import Decision
from odradek.coordinator.groups.table import GroupTable
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.delete_groups import DeletableGroupResult
from odradek.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from odradek.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

NOT_FOUND_VERSION = 6
"""From this version of DescribeGroups an unknown group is an error (KIP-1043); before, it is just Dead."""

GROUP_TYPE = "classic"
CONSUMER_GROUP_TYPE = "consumer"


def describe_group(table: GroupTable, group_id: str, api_version: int) -> DescribedGroup:
    """One group as tools show it. Members' metadata and the protocol are shown of a stable group only."""
    group = table.groups.get(group_id)
    if group is None:
        of_other_kind = group_id in table.consumer.groups
        why = "is not a classic group" if of_other_kind else "not found"
        return _describe_unknown(group_id, api_version, f"Group {group_id} {why}.")
    protocol = group.protocol if group.state is GroupState.STABLE else None
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=tuple(_describe_member(member, protocol) for member in group.members.values()),
    )


def _describe_unknown(group_id: str, api_version: int, message: str) -> DescribedGroup:
    dead = GroupState.DEAD.value
    if api_version < NOT_FOUND_VERSION:
        return DescribedGroup(group_id=group_id, group_state=dead)
    error = ErrorCode.GROUP_ID_NOT_FOUND
    return DescribedGroup(group_id=group_id, group_state=dead, error_code=error, error_message=message)


def _describe_member(member: Member, protocol: str | None) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(protocol),
        member_assignment=member.assignment,
    )


def list_groups(table: GroupTable, request: ListGroupsRequest) -> ListGroupsResponse:
    """The shard's groups in any of the states and of any of the types asked for; no filter means all."""
    states = {state.strip().lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    listed: list[ListedGroup] = []
    if not types or GROUP_TYPE in types:
        listed += map(_listed, table.groups.values())
    if not types or CONSUMER_GROUP_TYPE in types:
        listed += map(_listed_consumer, table.consumer.groups.values())
    return ListGroupsResponse(
        groups=tuple(group for group in listed if not states or group.group_state.lower() in states)
    )


def _listed(group: ClassicGroup) -> ListedGroup:
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type or "",
        group_state=group.state.value,
        group_type=GROUP_TYPE,
    )


def _listed_consumer(group: ConsumerGroup) -> ListedGroup:
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=PROTOCOL_TYPE,
        group_state=group.state.value,
        group_type=CONSUMER_GROUP_TYPE,
    )


def delete_group(table: GroupTable, group_id: str, decision: Decision) -> DeletableGroupResult:
    """Delete a group without members, and its offsets."""
    group, consumer_group = table.groups.get(group_id), table.consumer.groups.get(group_id)
    if group is None and consumer_group is None:
        return _not_deleted(group_id, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    busy = group is not None and group.state is not GroupState.EMPTY
    if busy or (consumer_group is not None and consumer_group.members):
        return _not_deleted(group_id, ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
    committed = [(topic, index) for topic, indexes in table.offsets.topics(group_id).items() for index in indexes]
    for topic, partition in dict.fromkeys([*committed, *table.offsets.pending_places(group_id)]):
        decision.record(records.offset_tombstone(group_id, topic, partition))
    if consumer_group is None:
        decision.record(records.group_tombstone(group_id))
    else:
        for record in consumer_records.group_tombstones(consumer_group):
            decision.record(record)
    return DeletableGroupResult(group_id=group_id)


def _not_deleted(group_id: str, error: ErrorCode, message: str) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=error, error_message=message)
