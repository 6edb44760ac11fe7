"""CreatePartitions (API 37), versions 0 to 3: give topics more partitions."""

from typing import Final

from gateway.context import RequestContext
from wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse

REQUEST: Final = CreatePartitionsRequest


async def handle(ctx: RequestContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """Let the metadata shard decide; the answer goes out once the change is on disk and in force."""
    return await ctx.services.metadata.create_partitions(request)
