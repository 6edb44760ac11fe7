"""IncrementalAlterConfigs (API 44), versions 0 to 1: change single settings of topics or brokers (KIP-339)."""

from typing import Final

from gateway.context import RequestContext
from wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse

REQUEST: Final = IncrementalAlterConfigsRequest


async def handle(ctx: RequestContext, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    """Let the metadata shard decide; the answer goes out once the change is on disk and in force."""
    return await ctx.services.metadata.incremental_alter_configs(request)
