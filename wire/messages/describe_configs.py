"""DescribeConfigs, API 32: versions 1 to 4, flexible from 4."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field


class DescribeConfigsResource(Struct):
    """An element of ``DescribeConfigsRequest.resources``."""

    resource_type: int = field(types.int8, default=0)
    resource_name: str = field(types.string, default="")
    configuration_keys: tuple[str, ...] | None = field(types.array(types.string), nullable="0+", default=())


class DescribeConfigsRequest(Message, kind="request", api_key=32, versions="1-4", flexible="4+"):
    """Request of API 32, versions 1 to 4."""

    resources: tuple[DescribeConfigsResource, ...] = field(types.array(DescribeConfigsResource), default=())
    include_synonyms: bool = field(types.boolean, versions="1+", default=False)
    include_documentation: bool = field(types.boolean, versions="3+", default=False)


class DescribeConfigsSynonym(Struct):
    """An element of ``DescribeConfigsResourceResult.synonyms``."""

    name: str = field(types.string, versions="1+", default="")
    value: str | None = field(types.string, versions="1+", nullable="0+", default="")
    source: int = field(types.int8, versions="1+", default=0)


class DescribeConfigsResourceResult(Struct):
    """An element of ``DescribeConfigsResult.configs``."""

    name: str = field(types.string, default="")
    value: str | None = field(types.string, nullable="0+", default="")
    read_only: bool = field(types.boolean, default=False)
    config_source: int = field(types.int8, versions="1+", ignorable=True, default=-1)
    is_sensitive: bool = field(types.boolean, default=False)
    synonyms: tuple[DescribeConfigsSynonym, ...] = field(
        types.array(DescribeConfigsSynonym), versions="1+", ignorable=True, default=()
    )
    config_type: int = field(types.int8, versions="3+", ignorable=True, default=0)
    documentation: str | None = field(types.string, versions="3+", nullable="0+", ignorable=True, default="")


class DescribeConfigsResult(Struct):
    """An element of ``DescribeConfigsResponse.results``."""

    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default="")
    resource_type: int = field(types.int8, default=0)
    resource_name: str = field(types.string, default="")
    configs: tuple[DescribeConfigsResourceResult, ...] = field(types.array(DescribeConfigsResourceResult), default=())


class DescribeConfigsResponse(Message, kind="response", api_key=32, versions="1-4", flexible="4+"):
    """Response of API 32, versions 1 to 4."""

    throttle_time_ms: int = field(types.int32, default=0)
    results: tuple[DescribeConfigsResult, ...] = field(types.array(DescribeConfigsResult), default=())
