"""ListGroups, API 16: versions 0 to 5, flexible from 3."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field


class ListGroupsRequest(Message, kind="request", api_key=16, versions="0-5", flexible="3+"):
    """Request of API 16, versions 0 to 5."""

    states_filter: tuple[str, ...] = field(types.array(types.string), versions="4+", default=())
    types_filter: tuple[str, ...] = field(types.array(types.string), versions="5+", default=())


class ListedGroup(Struct):
    """An element of ``ListGroupsResponse.groups``."""

    group_id: str = field(types.string, default="")
    protocol_type: str = field(types.string, default="")
    group_state: str = field(types.string, versions="4+", ignorable=True, default="")
    group_type: str = field(types.string, versions="5+", ignorable=True, default="")


class ListGroupsResponse(Message, kind="response", api_key=16, versions="0-5", flexible="3+"):
    """Response of API 16, versions 0 to 5."""

    throttle_time_ms: int = field(types.int32, versions="1+", ignorable=True, default=0)
    error_code: int = field(types.int16, default=0)
    groups: tuple[ListedGroup, ...] = field(types.array(ListedGroup), default=())
