"""DeleteTopics (API 20), versions 1 to 6: delete topics and their data; from 6 by name or by id."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from odradek.coordinator.metadata.controller.delete_topics import delete_topics
from odradek.gateway.handling.metadata import answer_of_controller
from odradek.gateway.metadata.parts import in_parts
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

REQUEST: Final = DeleteTopicsRequest


async def handle(ctx: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Decide in the metadata shard, in parts; the response is sent once the changes are committed and in force."""
    operation = partial(delete_topics, api_version=ctx.api_version)
    results: list[DeletableTopicResult] = []
    for part in _parts(request):
        answer = ctx.services.controller.decide(operation, part)
        results += (await answer_of_controller(answer, partial(_refused, part))).responses
    ctx.will_answer(len(results))
    return DeleteTopicsResponse(responses=tuple(results))


def _parts(request: DeleteTopicsRequest) -> Iterator[DeleteTopicsRequest]:
    if len({topic.name is None for topic in request.topics}) > 1:
        return iter((request,))  # a name and an id may mean the same topic
    if request.topics:
        asked = [(topic.name, topic.topic_id) for topic in request.topics]
        return (replace(request, topics=tuple(part)) for part in in_parts(request.topics, asked))
    return (replace(request, topic_names=tuple(part)) for part in in_parts(request.topic_names, request.topic_names))


def _refused(request: DeleteTopicsRequest, error: ErrorCode) -> DeleteTopicsResponse:
    asked = [*request.topics, *(DeleteTopicState(name=name) for name in request.topic_names)]
    results = [
        DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=error, error_message=error.message)
        for topic in asked
    ]
    return DeleteTopicsResponse(responses=tuple(results))
