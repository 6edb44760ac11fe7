"""IncrementalAlterConfigs (API 44), versions 0 to 1: change single settings of what AlterConfigs changes (KIP-339)."""

from itertools import repeat
from typing import Final

from coordinator.configs.errors import RefusedError
from coordinator.metadata.alter_configs import results_of
from gateway.context import RequestContext
from gateway.runtime.metadata import decided
from wire.errors import ErrorCode
from wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

REQUEST: Final = IncrementalAlterConfigsRequest


async def handle(ctx: RequestContext, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    """Let the metadata shard decide; the answer goes out once the change is on disk and in force."""

    def refused(error: ErrorCode) -> IncrementalAlterConfigsResponse:
        results = results_of(
            AlterConfigsResourceResponse, request.resources, repeat(RefusedError(error, error.message))
        )
        return IncrementalAlterConfigsResponse(responses=results)

    return await decided(ctx.services.metadata.incremental_alter_configs(request), refused)
