"""ApiVersions (API 18), versions 0 to 4: the served API versions and features (KIP-35, KIP-511, KIP-584).

Below version 4 features whose minimum is 0 are left out, since older clients refuse them (KAFKA-17011).

Gaps: version 5 of Kafka 4.4 checks cluster and node ids (KIP-1242); Kafka 4.3 serves up to version 4, too.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

from odradek.coordinator.quorum.voters import KRAFT_VERSION, KRAFT_VERSIONS
from odradek.gateway.server.context import RequestContext
from odradek.wire.api_keys import ADVERTISED, CONTROLLER_ADVERTISED, ApiKey
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

REQUEST: Final = ApiVersionsRequest
KRAFT_VERSION_RANGE: Final = (KRAFT_VERSION, KRAFT_VERSIONS)
CLIENT_INFORMATION_SINCE: Final = 3
ZERO_MINIMUMS_SINCE: Final = 4
VALID_CLIENT_INFORMATION: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def _listed(table: Mapping[ApiKey, tuple[int, int]]) -> tuple[ApiVersion, ...]:
    return tuple(
        ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in sorted(table.items())
    )


CONTROLLER_API_KEYS: Final = _listed(CONTROLLER_ADVERTISED)
"""The APIs that listeners for controllers serve."""


@cache
def _all() -> tuple[ApiVersion, ...]:
    return _listed(ADVERTISED)


def _served(ctx: RequestContext) -> tuple[ApiVersion, ...]:
    if ctx.session.is_controller:
        return CONTROLLER_API_KEYS
    return _all() if ctx.services.served is ADVERTISED else _listed(ctx.services.served)


async def handle(ctx: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """List the versions; refuse client software names with characters that would be unsafe in logs and metrics."""
    if ctx.api_version >= CLIENT_INFORMATION_SINCE and not _has_valid_client_information(request):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    metadata, release = ctx.services.metadata, ctx.services.config.release
    features = metadata.features
    kraft = [KRAFT_VERSION_RANGE] if release is None or KRAFT_VERSION in release.features else []
    return ApiVersionsResponse(
        api_keys=_served(ctx),
        supported_features=tuple(
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in sorted([*features.supported.items(), *kraft])
            if low > 0 or ctx.api_version >= ZERO_MINIMUMS_SINCE
        ),
        finalized_features_epoch=metadata.image.offset if features.supported else -1,
        finalized_features=tuple(
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in sorted([*features.finalized.items(), *(_kraft_version(ctx) if kraft else ())])
        ),
    )


def _kraft_version(ctx: RequestContext) -> list[tuple[str, int]]:
    """The level in force, which is in the quorum's log, not among the features. Level 0 is left out, as in Kafka."""
    return [] if ctx.services.quorum.replica.voters is None else [(KRAFT_VERSION, 1)]


def _has_valid_client_information(request: ApiVersionsRequest) -> bool:
    return all(
        VALID_CLIENT_INFORMATION.fullmatch(text)
        for text in (request.client_software_name, request.client_software_version)
    )
