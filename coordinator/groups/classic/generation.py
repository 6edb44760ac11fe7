"""The durable form of a classic group: the record of a whole generation."""

from collections.abc import Mapping

from odradek.coordinator.contract import ShardRecord
from odradek.coordinator.groups.classic.group import ClassicGroup, Member
from odradek.coordinator.groups.classic.records import group_value_record
from odradek.wire.stored.group_records import GroupMetadataValue, MemberMetadata


def group_record(group: ClassicGroup, assignments: Mapping[str, bytes], since_ms: int) -> ShardRecord:
    """Returns the record of the current generation, with each member's assignment by member id, begun at `since_ms`."""
    members = tuple(_member(member, group.protocol, assignments) for member in group.members.values())
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp=since_ms,
        members=members,
    )
    return group_value_record(group.group_id, value)


def new_group_record(group: ClassicGroup) -> ShardRecord:
    """Returns the record of a new group, before its first generation."""
    value = GroupMetadataValue(protocol=None, leader=None, current_state_timestamp=group.state_since_ms)
    return group_value_record(group.group_id, value)


def assignments_of(group: ClassicGroup) -> dict[str, bytes]:
    """Returns the assignments in the current generation by member id."""
    return {member_id: member.assignment for member_id, member in group.members.items()}


def _member(member: Member, protocol: str | None, assignments: Mapping[str, bytes]) -> MemberMetadata:
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(protocol),
        assignment=assignments[member.member_id],
    )
