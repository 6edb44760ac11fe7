"""DescribeGroups, versions 0 to 6."""

from odradek.coordinator.groups.classic.group import ClassicGroup, Member
from odradek.coordinator.groups.classic.states import GroupState
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember

NOT_FOUND_VERSION = 6
"""From this version on an unknown group is an error (KIP-1043); before, it is described as Dead."""


def describe_group(group: ClassicGroup) -> DescribedGroup:
    """Returns the description of a group. The members' metadata and the protocol are included only if it is Stable."""
    protocol = group.protocol if group.state is GroupState.STABLE else None
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=tuple(_describe_member(member, protocol) for member in group.members.values()),
    )


def describe_unknown(group_id: str, api_version: int, *, other_protocol: bool) -> DescribedGroup:
    """Returns the description for an id without a classic group; `other_protocol` if a group of another one has it."""
    dead = GroupState.DEAD.value
    if api_version < NOT_FOUND_VERSION:
        return DescribedGroup(group_id=group_id, group_state=dead)
    message = f"Group {group_id} {'is not a classic group' if other_protocol else 'not found'}."
    return DescribedGroup(
        group_id=group_id, group_state=dead, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=message
    )


def _describe_member(member: Member, protocol: str | None) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(protocol),
        member_assignment=member.assignment,
    )
