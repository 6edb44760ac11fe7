"""UpdateFeatures, API 57: versions 0 to 2, flexible from 0."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field


class FeatureUpdateKey(Struct):
    """An element of ``UpdateFeaturesRequest.feature_updates``."""

    feature: str = field(types.string, default="")
    max_version_level: int = field(types.int16, default=0)
    allow_downgrade: bool = field(types.boolean, versions="0", default=False)
    upgrade_type: int = field(types.int8, versions="1+", default=1)


class UpdateFeaturesRequest(Message, kind="request", api_key=57, versions="0-2", flexible="0+"):
    """Request of API 57, versions 0 to 2."""

    timeout_ms: int = field(types.int32, default=60000)
    feature_updates: tuple[FeatureUpdateKey, ...] = field(types.array(FeatureUpdateKey), default=())
    validate_only: bool = field(types.boolean, versions="1+", default=False)


class UpdatableFeatureResult(Struct):
    """An element of ``UpdateFeaturesResponse.results``."""

    feature: str = field(types.string, default="")
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default="")


class UpdateFeaturesResponse(Message, kind="response", api_key=57, versions="0-2", flexible="0+"):
    """Response of API 57, versions 0 to 2."""

    throttle_time_ms: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default="")
    results: tuple[UpdatableFeatureResult, ...] = field(
        types.array(UpdatableFeatureResult), versions="0-1", ignorable=True, default=()
    )
