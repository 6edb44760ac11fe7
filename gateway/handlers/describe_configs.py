"""DescribeConfigs (API 32), versions 1 to 4: settings of topics, brokers and groups, with sources and synonyms."""

from typing import Final

from coordinator.metadata.describe_configs import describe_configs
from gateway.context import RequestContext
from wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse

REQUEST: Final = DescribeConfigsRequest


async def handle(ctx: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Answer from the published image."""
    return describe_configs(ctx.services.basis(), request, ctx.services.logger_levels())
