"""DescribeGroups, API 15: versions 0 to 6, flexible from 5."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import Buffer


class DescribeGroupsRequest(Message, kind="request", api_key=15, versions="0-6", flexible="5+"):
    """Request of API 15, versions 0 to 6."""

    groups: tuple[str, ...] = field(types.array(types.string), default=())
    include_authorized_operations: bool = field(types.boolean, versions="3+", default=False)


class DescribedGroupMember(Struct):
    """An element of ``DescribedGroup.members``."""

    member_id: str = field(types.string, default="")
    group_instance_id: str | None = field(types.string, versions="4+", nullable="4+", ignorable=True, default=None)
    client_id: str = field(types.string, default="")
    client_host: str = field(types.string, default="")
    member_metadata: Buffer = field(types.data, default=b"")
    member_assignment: Buffer = field(types.data, default=b"")


class DescribedGroup(Struct):
    """An element of ``DescribeGroupsResponse.groups``."""

    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, versions="6+", nullable="6+", default=None)
    group_id: str = field(types.string, default="")
    group_state: str = field(types.string, default="")
    protocol_type: str = field(types.string, default="")
    protocol_data: str = field(types.string, default="")
    members: tuple[DescribedGroupMember, ...] = field(types.array(DescribedGroupMember), default=())
    authorized_operations: int = field(types.int32, versions="3+", default=-2147483648)


class DescribeGroupsResponse(Message, kind="response", api_key=15, versions="0-6", flexible="5+"):
    """Response of API 15, versions 0 to 6."""

    throttle_time_ms: int = field(types.int32, versions="1+", ignorable=True, default=0)
    groups: tuple[DescribedGroup, ...] = field(types.array(DescribedGroup), default=())
