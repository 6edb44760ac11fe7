"""ApiVersions, API 18: versions 0 to 5, flexible from 3."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field


class ApiVersionsRequest(Message, kind="request", api_key=18, versions="0-5", flexible="3+"):
    """Request of API 18, versions 0 to 5."""

    client_software_name: str = field(types.string, versions="3+", ignorable=True, default="")
    client_software_version: str = field(types.string, versions="3+", ignorable=True, default="")
    cluster_id: str | None = field(types.string, versions="5+", nullable="5+", ignorable=True, default=None)
    node_id: int = field(types.int32, versions="5+", ignorable=True, default=-1)


class ApiVersion(Struct):
    """An element of ``ApiVersionsResponse.api_keys``."""

    api_key: int = field(types.int16, default=0)
    min_version: int = field(types.int16, default=0)
    max_version: int = field(types.int16, default=0)


class SupportedFeatureKey(Struct):
    """An element of ``ApiVersionsResponse.supported_features``."""

    name: str = field(types.string, versions="3+", default="")
    min_version: int = field(types.int16, versions="3+", default=0)
    max_version: int = field(types.int16, versions="3+", default=0)


class FinalizedFeatureKey(Struct):
    """An element of ``ApiVersionsResponse.finalized_features``."""

    name: str = field(types.string, versions="3+", default="")
    max_version_level: int = field(types.int16, versions="3+", default=0)
    min_version_level: int = field(types.int16, versions="3+", default=0)


class ApiVersionsResponse(Message, kind="response", api_key=18, versions="0-5", flexible="3+"):
    """Response of API 18, versions 0 to 5."""

    error_code: int = field(types.int16, default=0)
    api_keys: tuple[ApiVersion, ...] = field(types.array(ApiVersion), default=())
    throttle_time_ms: int = field(types.int32, versions="1+", ignorable=True, default=0)
    supported_features: tuple[SupportedFeatureKey, ...] = field(
        types.array(SupportedFeatureKey), versions="3+", tag=0, ignorable=True, default=()
    )
    finalized_features_epoch: int = field(types.int64, versions="3+", tag=1, ignorable=True, default=-1)
    finalized_features: tuple[FinalizedFeatureKey, ...] = field(
        types.array(FinalizedFeatureKey), versions="3+", tag=2, ignorable=True, default=()
    )
    zk_migration_ready: bool = field(types.boolean, versions="3+", tag=3, ignorable=True, default=False)
