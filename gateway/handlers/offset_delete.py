"""OffsetDelete (API 47), versions 0: forget committed offsets of a group (KIP-496)."""

from typing import Final

from gateway.context import RequestContext
from gateway.runtime.shards import CoordinatorError
from wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse

REQUEST: Final = OffsetDeleteRequest


async def handle(ctx: RequestContext, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    """Ask the group's coordinator."""
    try:
        return await ctx.services.groups.call(
            request.group_id,
            lambda shard, token, now_ms: shard.offset_delete(request, ctx.caller(), token, now_ms),
            OffsetDeleteResponse,
        )
    except CoordinatorError as error:
        return OffsetDeleteResponse(error_code=error.error)
