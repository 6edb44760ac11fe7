"""CreatePartitions (API 37), versions 0 to 3: give topics more partitions."""

from typing import Final

from gateway.context import RequestContext
from gateway.runtime.metadata import error_of_unavailable
from gateway.runtime.waiter import CoordinatorError
from wire.errors import ErrorCode
from wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

REQUEST: Final = CreatePartitionsRequest


async def handle(ctx: RequestContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """Let the metadata shard decide; the answer goes out once the change is on disk and in force."""
    try:
        return await ctx.services.metadata.create_partitions(request)
    except CoordinatorError as error:
        return _refused(request, error_of_unavailable(error))


def _refused(request: CreatePartitionsRequest, error: ErrorCode) -> CreatePartitionsResponse:
    results = [
        CreatePartitionsTopicResult(name=topic.name, error_code=error, error_message=error.message)
        for topic in request.topics
    ]
    return CreatePartitionsResponse(results=tuple(results))
