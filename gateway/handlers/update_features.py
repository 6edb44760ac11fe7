"""UpdateFeatures (API 57), versions 0 to 2: raise and lower the levels of features (KIP-584, KIP-1022)."""

from functools import partial
from typing import Final

from odradek.coordinator.metadata.controller.features import update_features
from odradek.gateway.handling.metadata import answer_of_controller
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

REQUEST: Final = UpdateFeaturesRequest


async def handle(ctx: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """Let the metadata shard decide; the answer goes out once the change is on disk and in force."""

    def refused(error: ErrorCode) -> UpdateFeaturesResponse:
        return UpdateFeaturesResponse(error_code=error, error_message=error.message)

    operation = partial(update_features, api_version=ctx.api_version)
    return await answer_of_controller(ctx.services.controller.decide(operation, request), refused)
