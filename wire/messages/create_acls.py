"""CreateAcls, API 30: versions 1 to 3, flexible from 2."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field


class AclCreation(Struct):
    """An element of ``CreateAclsRequest.creations``."""

    resource_type: int = field(types.int8, default=0)
    resource_name: str = field(types.string, default="")
    resource_pattern_type: int = field(types.int8, versions="1+", default=3)
    principal: str = field(types.string, default="")
    host: str = field(types.string, default="")
    operation: int = field(types.int8, default=0)
    permission_type: int = field(types.int8, default=0)


class CreateAclsRequest(Message, kind="request", api_key=30, versions="1-3", flexible="2+"):
    """Request of API 30, versions 1 to 3."""

    creations: tuple[AclCreation, ...] = field(types.array(AclCreation), default=())


class AclCreationResult(Struct):
    """An element of ``CreateAclsResponse.results``."""

    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default="")


class CreateAclsResponse(Message, kind="response", api_key=30, versions="1-3", flexible="2+"):
    """Response of API 30, versions 1 to 3."""

    throttle_time_ms: int = field(types.int32, default=0)
    results: tuple[AclCreationResult, ...] = field(types.array(AclCreationResult), default=())
