"""ListGroups, versions 0 to 5, and DeleteGroups, versions 0 to 2: the same for groups of all protocols."""

from odradek.coordinator.groups.decision import Decision
from odradek.coordinator.groups.offsets.delete import delete_all_offsets
from odradek.coordinator.groups.table import GroupTable
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.delete_groups import DeletableGroupResult
from odradek.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse


def list_groups(table: GroupTable, request: ListGroupsRequest) -> ListGroupsResponse:
    """Returns the shard's groups with any of the states and types in the request; an empty filter matches all."""
    states = {state.strip().lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    listed = (group.listed() for group in table.each())
    return ListGroupsResponse(
        groups=tuple(
            group
            for group in listed
            if (not types or group.group_type in types) and (not states or group.group_state.lower() in states)
        )
    )


def delete_group(table: GroupTable, group_id: str, decision: Decision) -> DeletableGroupResult:
    """Delete a group without members, and its offsets."""
    group = table.find(group_id)
    if group is None:
        return _not_deleted(group_id, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    if not group.is_empty():
        return _not_deleted(group_id, ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
    delete_all_offsets(table.offsets, group_id, decision)
    decision.write(group.tombstones())
    return DeletableGroupResult(group_id=group_id)


def _not_deleted(group_id: str, error: ErrorCode, message: str) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=error, error_message=message)
