"""UpdateFeatures (API 57), versions 0 to 2: raise and lower the levels of features (KIP-584, KIP-1022)."""

from dataclasses import replace
from functools import partial
from typing import Final

from odradek.coordinator.metadata.controller.features import update_features
from odradek.coordinator.quorum.voters import KRAFT_VERSION, KRAFT_VERSIONS
from odradek.gateway.handling.metadata import answer_of_controller
from odradek.gateway.handling.metadata_log import voter_changes
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

REQUEST: Final = UpdateFeaturesRequest
RESULTS_UNTIL: Final = 1


async def handle(ctx: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """Decide in the metadata shard; the response is sent once the change is committed and in force."""

    def refused(error: ErrorCode) -> UpdateFeaturesResponse:
        return UpdateFeaturesResponse(error_code=error, error_message=error.message)

    kraft = [each for each in request.feature_updates if each.feature == KRAFT_VERSION]
    if kraft:
        error, message = await _raise_kraft_version(ctx, request, kraft[0])
        if error or len(request.feature_updates) == len(kraft):
            named = kraft if ctx.api_version <= RESULTS_UNTIL and not error else []
            results = [UpdatableFeatureResult(feature=each.feature, error_message=error.name) for each in named]
            return UpdateFeaturesResponse(error_code=error, error_message=message, results=tuple(results))
        others = [each for each in request.feature_updates if each.feature != KRAFT_VERSION]
        request = replace(request, feature_updates=tuple(others))
    operation = partial(update_features, api_version=ctx.api_version)
    return await answer_of_controller(ctx.services.controller.decide(operation, request), refused)


async def _raise_kraft_version(
    ctx: RequestContext, request: UpdateFeaturesRequest, update: FeatureUpdateKey
) -> tuple[ErrorCode, str | None]:
    """Raise `kraft.version`, which is stored in the quorum's log: its leader raises it to 1; it is never lowered."""
    is_raised, low, high = ctx.services.quorum.replica.voters is not None, *KRAFT_VERSIONS
    if not low <= update.max_version_level <= high or update.max_version_level < is_raised:
        why = f"its level is {int(is_raised)}, and levels {low} to {high} are served; it is never lowered"
        return ErrorCode.INVALID_UPDATE_VERSION, f"Nothing was updated: {update.feature} cannot be set: {why}."
    if update.max_version_level == is_raised:
        return ErrorCode.NONE, None
    change = await voter_changes(ctx).raise_version(only_checked=request.validate_only)
    return change.error, change.message
