"""CreateTopics (API 19), versions 2 to 7: create topics."""

from dataclasses import replace
from functools import partial
from typing import Final

from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.metadata.controller.create_topics import create_topics
from odradek.coordinator.metadata.request_size import check_create_topics, partitions_of
from odradek.gateway.handling.metadata import answer_of_controller
from odradek.gateway.metadata.parts import in_parts
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse

REQUEST: Final = CreateTopicsRequest


async def handle(ctx: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Decide in the metadata shard, in parts; the response is sent once the changes are committed and in force."""
    context = ctx.services.decision_context()
    try:
        check_create_topics(context, request)
    except RefusedError as refused:
        return _refused(request, refused.code, refused.message)
    names, default = [topic.name for topic in request.topics], context.number("num.partitions")
    results: list[CreatableTopicResult] = []
    for topics in in_parts(request.topics, names, lambda topic: partitions_of(topic, default)):
        part = replace(request, topics=tuple(topics))
        answer = ctx.services.controller.decide(create_topics, part)
        results += (await answer_of_controller(answer, partial(_unavailable, part))).topics
    ctx.will_answer(len(results))
    return CreateTopicsResponse(topics=tuple(results))


def _unavailable(request: CreateTopicsRequest, error: ErrorCode) -> CreateTopicsResponse:
    return _refused(request, error, error.message)


def _refused(request: CreateTopicsRequest, error: ErrorCode, message: str | None) -> CreateTopicsResponse:
    topics = [
        CreatableTopicResult(name=topic.name, error_code=error, error_message=message) for topic in request.topics
    ]
    return CreateTopicsResponse(topics=tuple(topics))
