"""IncrementalAlterConfigs, API 44: versions 0 to 1, flexible from 1."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field


class AlterableConfig(Struct):
    """An element of ``AlterConfigsResource.configs``."""

    name: str = field(types.string, default="")
    config_operation: int = field(types.int8, default=0)
    value: str | None = field(types.string, nullable="0+", default="")


class AlterConfigsResource(Struct):
    """An element of ``IncrementalAlterConfigsRequest.resources``."""

    resource_type: int = field(types.int8, default=0)
    resource_name: str = field(types.string, default="")
    configs: tuple[AlterableConfig, ...] = field(types.array(AlterableConfig), default=())


class IncrementalAlterConfigsRequest(Message, kind="request", api_key=44, versions="0-1", flexible="1+"):
    """Request of API 44, versions 0 to 1."""

    resources: tuple[AlterConfigsResource, ...] = field(types.array(AlterConfigsResource), default=())
    validate_only: bool = field(types.boolean, default=False)


class AlterConfigsResourceResponse(Struct):
    """An element of ``IncrementalAlterConfigsResponse.responses``."""

    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default="")
    resource_type: int = field(types.int8, default=0)
    resource_name: str = field(types.string, default="")


class IncrementalAlterConfigsResponse(Message, kind="response", api_key=44, versions="0-1", flexible="1+"):
    """Response of API 44, versions 0 to 1."""

    throttle_time_ms: int = field(types.int32, default=0)
    responses: tuple[AlterConfigsResourceResponse, ...] = field(types.array(AlterConfigsResourceResponse), default=())
