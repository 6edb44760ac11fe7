"""DeleteTopics (API 20), versions 1 to 6: delete topics and their data; from 6 by name or by id."""

from typing import Final

from gateway.context import RequestContext
from gateway.runtime.metadata import error_of_unavailable
from gateway.runtime.waiter import CoordinatorError
from wire.errors import ErrorCode
from wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

REQUEST: Final = DeleteTopicsRequest


async def handle(ctx: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Let the metadata shard decide; the answer goes out once the change is on disk and in force."""
    try:
        return await ctx.services.metadata.delete_topics(request, ctx.api_version)
    except CoordinatorError as error:
        return _refused(request, error_of_unavailable(error))


def _refused(request: DeleteTopicsRequest, error: ErrorCode) -> DeleteTopicsResponse:
    asked = [*request.topics, *(DeleteTopicState(name=name) for name in request.topic_names)]
    results = [
        DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=error, error_message=error.message)
        for topic in asked
    ]
    return DeleteTopicsResponse(responses=tuple(results))
