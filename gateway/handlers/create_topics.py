"""CreateTopics (API 19), versions 2 to 7: make topics."""

from typing import Final

from gateway.context import RequestContext
from wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse

REQUEST: Final = CreateTopicsRequest


async def handle(ctx: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Let the metadata shard decide; the answer goes out once the change is on disk and in force."""
    return await ctx.services.metadata.create_topics(request)
