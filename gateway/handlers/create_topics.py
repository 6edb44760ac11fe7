"""CreateTopics (API 19), versions 2 to 7: make topics."""

from typing import Final

from gateway.context import RequestContext
from gateway.runtime.metadata import error_of_unavailable
from gateway.runtime.waiter import CoordinatorError
from wire.errors import ErrorCode
from wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse

REQUEST: Final = CreateTopicsRequest


async def handle(ctx: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Let the metadata shard decide; the answer goes out once the change is on disk and in force."""
    try:
        return await ctx.services.metadata.create_topics(request)
    except CoordinatorError as error:
        return _refused(request, error_of_unavailable(error))


def _refused(request: CreateTopicsRequest, error: ErrorCode) -> CreateTopicsResponse:
    topics = [
        CreatableTopicResult(name=topic.name, error_code=error, error_message=error.message) for topic in request.topics
    ]
    return CreateTopicsResponse(topics=tuple(topics))
