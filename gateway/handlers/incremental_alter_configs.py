"""IncrementalAlterConfigs (API 44), versions 0 to 1: change single settings of topics or brokers (KIP-339)."""

from typing import Final

from gateway.context import RequestContext
from gateway.runtime.metadata import error_of_unavailable
from gateway.runtime.shards import CoordinatorError
from wire.errors import ErrorCode
from wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

REQUEST: Final = IncrementalAlterConfigsRequest


async def handle(ctx: RequestContext, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    """Let the metadata shard decide; the answer goes out once the change is on disk and in force."""
    try:
        return await ctx.services.metadata.incremental_alter_configs(request)
    except CoordinatorError as error:
        return _refused(request, error_of_unavailable(error))


def _refused(request: IncrementalAlterConfigsRequest, error: ErrorCode) -> IncrementalAlterConfigsResponse:
    responses = [
        AlterConfigsResourceResponse(
            error_code=error,
            error_message=error.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource in request.resources
    ]
    return IncrementalAlterConfigsResponse(responses=tuple(responses))
