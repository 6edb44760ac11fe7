"""AlterConfigs (API 33), versions 0 to 2: replace all settings of topics or brokers."""

from typing import Final

from gateway.context import RequestContext
from wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse

REQUEST: Final = AlterConfigsRequest


async def handle(ctx: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Let the metadata shard decide; the answer goes out once the change is on disk and in force."""
    return await ctx.services.metadata.alter_configs(request)
