"""ListConfigResources, API 74: versions 0 to 1, flexible from 0."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field


class ListConfigResourcesRequest(Message, kind="request", api_key=74, versions="0-1", flexible="0+"):
    """Request of API 74, versions 0 to 1."""

    resource_types: tuple[int, ...] = field(types.array(types.int8), versions="1+", default=())


class ConfigResource(Struct):
    """An element of ``ListConfigResourcesResponse.config_resources``."""

    resource_name: str = field(types.string, default="")
    resource_type: int = field(types.int8, versions="1+", ignorable=True, default=16)


class ListConfigResourcesResponse(Message, kind="response", api_key=74, versions="0-1", flexible="0+"):
    """Response of API 74, versions 0 to 1."""

    throttle_time_ms: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    config_resources: tuple[ConfigResource, ...] = field(types.array(ConfigResource), default=())
