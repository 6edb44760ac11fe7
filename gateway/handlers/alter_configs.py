"""AlterConfigs (API 33), versions 0 to 2: replace all settings of topics, brokers, groups or client metrics."""

from itertools import repeat
from typing import Final

from coordinator.configs.errors import RefusedError
from coordinator.metadata.alter_configs import results_of
from gateway.context import RequestContext
from gateway.runtime.metadata import decided
from wire.errors import ErrorCode
from wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResourceResponse, AlterConfigsResponse

REQUEST: Final = AlterConfigsRequest


async def handle(ctx: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Let the metadata shard decide; the answer goes out once the change is on disk and in force."""

    def refused(error: ErrorCode) -> AlterConfigsResponse:
        errors = repeat(RefusedError(error, error.message))
        return AlterConfigsResponse(responses=results_of(AlterConfigsResourceResponse, request.resources, errors))

    return await decided(ctx.services.metadata.alter_configs(request), refused)
