"""DeleteGroups, API 42: versions 0 to 3, flexible from 2."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field


class DeleteGroupsRequest(Message, kind="request", api_key=42, versions="0-3", flexible="2+"):
    """Request of API 42, versions 0 to 3."""

    groups_names: tuple[str, ...] = field(types.array(types.string), default=())


class DeletableGroupResult(Struct):
    """An element of ``DeleteGroupsResponse.results``."""

    group_id: str = field(types.string, default="")
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, versions="3+", nullable="3+", ignorable=True, default=None)


class DeleteGroupsResponse(Message, kind="response", api_key=42, versions="0-3", flexible="2+"):
    """Response of API 42, versions 0 to 3."""

    throttle_time_ms: int = field(types.int32, default=0)
    results: tuple[DeletableGroupResult, ...] = field(types.array(DeletableGroupResult), default=())
