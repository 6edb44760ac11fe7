"""AlterConfigs (API 33), versions 0 to 2: replace all settings of topics or brokers."""

from typing import Final

from gateway.context import RequestContext
from gateway.runtime.metadata import error_of_unavailable
from gateway.runtime.shards import CoordinatorError
from wire.errors import ErrorCode
from wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

REQUEST: Final = AlterConfigsRequest


async def handle(ctx: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Let the metadata shard decide; the answer goes out once the change is on disk and in force."""
    try:
        return await ctx.services.metadata.alter_configs(request)
    except CoordinatorError as error:
        return _refused(request, error_of_unavailable(error))


def _refused(request: AlterConfigsRequest, error: ErrorCode) -> AlterConfigsResponse:
    responses = [
        AlterConfigsResourceResponse(
            error_code=error,
            error_message=error.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource in request.resources
    ]
    return AlterConfigsResponse(responses=tuple(responses))
