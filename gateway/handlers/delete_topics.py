"""DeleteTopics (API 20), versions 1 to 5: delete topics and their data."""

from typing import Final

from gateway.context import RequestContext
from wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse

REQUEST: Final = DeleteTopicsRequest


async def handle(ctx: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Let the metadata shard decide; the answer goes out once the change is on disk and in force."""
    return await ctx.services.metadata.delete_topics(request, ctx.api_version)
