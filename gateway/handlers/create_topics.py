"""CreateTopics (API 19), versions 2 to 7: make topics."""

from dataclasses import replace
from typing import Final

from gateway.context import RequestContext
from gateway.parts import in_parts
from gateway.runtime.metadata import error_of_unavailable
from gateway.runtime.waiter import CoordinatorError
from wire.errors import ErrorCode
from wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse

REQUEST: Final = CreateTopicsRequest


async def handle(ctx: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Let the metadata shard decide; the answer goes out once the change is on disk and in force."""
    results: list[CreatableTopicResult] = []
    for topics in in_parts(request.topics, [topic.name for topic in request.topics]):
        part = replace(request, topics=tuple(topics))
        try:
            results += (await ctx.services.metadata.create_topics(part)).topics
        except CoordinatorError as error:
            results += _refused(part, error_of_unavailable(error)).topics
    ctx.will_answer(len(results))
    return CreateTopicsResponse(topics=tuple(results))


def _refused(request: CreateTopicsRequest, error: ErrorCode) -> CreateTopicsResponse:
    topics = [
        CreatableTopicResult(name=topic.name, error_code=error, error_message=error.message) for topic in request.topics
    ]
    return CreateTopicsResponse(topics=tuple(topics))
