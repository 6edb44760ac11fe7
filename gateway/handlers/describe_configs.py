"""DescribeConfigs (API 32), versions 1 to 4: settings of topics, brokers and groups, with sources and synonyms."""

from dataclasses import replace
from typing import Final

from odradek.coordinator.metadata.describe_configs import describe_configs
from odradek.gateway.server.context import RequestContext
from odradek.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)

REQUEST: Final = DescribeConfigsRequest


async def handle(ctx: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Answer from the published image. Other tasks run after each resource, since a broker has hundreds of settings.

    A resource that is named again is described once, with the keys of the first entry.
    """
    context, levels = ctx.services.decision_context(), ctx.services.logger_levels()
    results: list[DescribeConfigsResult] = []
    asked: dict[tuple[int, str], DescribeConfigsResource] = {}
    for resource in request.resources:
        asked.setdefault((resource.resource_type, resource.resource_name), resource)
    for resource in asked.values():
        described = describe_configs(context, replace(request, resources=(resource,)), levels).results
        ctx.will_answer(sum([len(result.configs) for result in described]))
        results += described
        await ctx.checkpoint()
    return DescribeConfigsResponse(results=tuple(results))
