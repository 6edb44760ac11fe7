"""IncrementalAlterConfigs (API 44), versions 0 to 1: change single settings of topics, brokers and others (KIP-339)."""

from dataclasses import replace
from functools import partial
from itertools import repeat
from typing import Final

from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.metadata.controller.alter_configs import incremental_alter_configs, results_of
from odradek.gateway.handling.metadata import answer_of_controller
from odradek.gateway.metadata.parts import in_parts
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

REQUEST: Final = IncrementalAlterConfigsRequest


async def handle(ctx: RequestContext, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    """Decide in the metadata shard, in parts; the response is sent once the changes are committed and in force."""
    results: list[AlterConfigsResourceResponse] = []
    names = [(resource.resource_type, resource.resource_name) for resource in request.resources]
    for resources in in_parts(request.resources, names):
        part = replace(request, resources=tuple(resources))
        answer = await answer_of_controller(
            ctx.services.controller.decide(incremental_alter_configs, part), partial(_refused, part)
        )
        results += answer.responses
    ctx.will_answer(len(results))
    return IncrementalAlterConfigsResponse(responses=tuple(results))


def _refused(request: IncrementalAlterConfigsRequest, error: ErrorCode) -> IncrementalAlterConfigsResponse:
    errors = repeat(RefusedError(error, error.message))
    return IncrementalAlterConfigsResponse(
        responses=results_of(AlterConfigsResourceResponse, request.resources, errors)
    )
