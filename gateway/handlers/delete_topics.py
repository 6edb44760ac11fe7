"""DeleteTopics (API 20), versions 1 to 5: delete topics and their data."""

from typing import Final

from gateway.context import RequestContext
from gateway.runtime.metadata import error_of_unavailable
from gateway.runtime.shards import CoordinatorError
from wire.errors import ErrorCode
from wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse

REQUEST: Final = DeleteTopicsRequest


async def handle(ctx: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Let the metadata shard decide; the answer goes out once the change is on disk and in force."""
    try:
        return await ctx.services.metadata.delete_topics(request, ctx.api_version)
    except CoordinatorError as error:
        return _refused(request, error_of_unavailable(error))


def _refused(request: DeleteTopicsRequest, error: ErrorCode) -> DeleteTopicsResponse:
    topics = [
        DeletableTopicResult(name=name, error_code=error, error_message=error.message) for name in request.topic_names
    ]
    return DeleteTopicsResponse(responses=tuple(topics))
