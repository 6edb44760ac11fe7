"""DescribeAcls, API 29: versions 1 to 3, flexible from 2."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field


class DescribeAclsRequest(Message, kind="request", api_key=29, versions="1-3", flexible="2+"):
    """Request of API 29, versions 1 to 3."""

    resource_type_filter: int = field(types.int8, default=0)
    resource_name_filter: str | None = field(types.string, nullable="0+", default="")
    pattern_type_filter: int = field(types.int8, versions="1+", default=3)
    principal_filter: str | None = field(types.string, nullable="0+", default="")
    host_filter: str | None = field(types.string, nullable="0+", default="")
    operation: int = field(types.int8, default=0)
    permission_type: int = field(types.int8, default=0)


class AclDescription(Struct):
    """An element of ``DescribeAclsResource.acls``."""

    principal: str = field(types.string, default="")
    host: str = field(types.string, default="")
    operation: int = field(types.int8, default=0)
    permission_type: int = field(types.int8, default=0)


class DescribeAclsResource(Struct):
    """An element of ``DescribeAclsResponse.resources``."""

    resource_type: int = field(types.int8, default=0)
    resource_name: str = field(types.string, default="")
    pattern_type: int = field(types.int8, versions="1+", default=3)
    acls: tuple[AclDescription, ...] = field(types.array(AclDescription), default=())


class DescribeAclsResponse(Message, kind="response", api_key=29, versions="1-3", flexible="2+"):
    """Response of API 29, versions 1 to 3."""

    throttle_time_ms: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default="")
    resources: tuple[DescribeAclsResource, ...] = field(types.array(DescribeAclsResource), default=())
