"""DeleteAcls, API 31: versions 1 to 3, flexible from 2."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field


class DeleteAclsFilter(Struct):
    """An element of ``DeleteAclsRequest.filters``."""

    resource_type_filter: int = field(types.int8, default=0)
    resource_name_filter: str | None = field(types.string, nullable="0+", default="")
    pattern_type_filter: int = field(types.int8, versions="1+", default=3)
    principal_filter: str | None = field(types.string, nullable="0+", default="")
    host_filter: str | None = field(types.string, nullable="0+", default="")
    operation: int = field(types.int8, default=0)
    permission_type: int = field(types.int8, default=0)


class DeleteAclsRequest(Message, kind="request", api_key=31, versions="1-3", flexible="2+"):
    """Request of API 31, versions 1 to 3."""

    filters: tuple[DeleteAclsFilter, ...] = field(types.array(DeleteAclsFilter), default=())


class DeleteAclsMatchingAcl(Struct):
    """An element of ``DeleteAclsFilterResult.matching_acls``."""

    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default="")
    resource_type: int = field(types.int8, default=0)
    resource_name: str = field(types.string, default="")
    pattern_type: int = field(types.int8, versions="1+", default=3)
    principal: str = field(types.string, default="")
    host: str = field(types.string, default="")
    operation: int = field(types.int8, default=0)
    permission_type: int = field(types.int8, default=0)


class DeleteAclsFilterResult(Struct):
    """An element of ``DeleteAclsResponse.filter_results``."""

    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default="")
    matching_acls: tuple[DeleteAclsMatchingAcl, ...] = field(types.array(DeleteAclsMatchingAcl), default=())


class DeleteAclsResponse(Message, kind="response", api_key=31, versions="1-3", flexible="2+"):
    """Response of API 31, versions 1 to 3."""

    throttle_time_ms: int = field(types.int32, default=0)
    filter_results: tuple[DeleteAclsFilterResult, ...] = field(types.array(DeleteAclsFilterResult), default=())
