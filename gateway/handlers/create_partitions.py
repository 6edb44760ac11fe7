"""CreatePartitions (API 37), versions 0 to 3: add partitions to topics."""

from dataclasses import replace
from functools import partial
from typing import Final

from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.metadata.controller.create_partitions import create_partitions
from odradek.coordinator.metadata.request_size import added_partitions, check_create_partitions
from odradek.gateway.handling.metadata import answer_of_controller
from odradek.gateway.metadata.parts import in_parts
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

REQUEST: Final = CreatePartitionsRequest


async def handle(ctx: RequestContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """Decide in the metadata shard, in parts; the response is sent once the changes are committed and in force."""
    image = ctx.services.metadata.image
    try:
        check_create_partitions(image, request)
    except RefusedError as refused:
        return _refused(request, refused.code, refused.message)
    names = [topic.name for topic in request.topics]
    results: list[CreatePartitionsTopicResult] = []
    for topics in in_parts(request.topics, names, partial(added_partitions, image)):
        part = replace(request, topics=tuple(topics))
        answer = ctx.services.controller.decide(create_partitions, part)
        results += (await answer_of_controller(answer, partial(_unavailable, part))).results
    ctx.will_answer(len(results))
    return CreatePartitionsResponse(results=tuple(results))


def _unavailable(request: CreatePartitionsRequest, error: ErrorCode) -> CreatePartitionsResponse:
    return _refused(request, error, error.message)


def _refused(request: CreatePartitionsRequest, error: ErrorCode, message: str | None) -> CreatePartitionsResponse:
    results = [
        CreatePartitionsTopicResult(name=topic.name, error_code=error, error_message=message)
        for topic in request.topics
    ]
    return CreatePartitionsResponse(results=tuple(results))
