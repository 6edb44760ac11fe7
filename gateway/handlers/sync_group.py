"""SyncGroup (API 14), versions 0 to 5: learn one's part of a generation."""

from typing import Final

from gateway.context import RequestContext
from gateway.runtime.shards import CoordinatorError
from wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

REQUEST: Final = SyncGroupRequest


async def handle(ctx: RequestContext, request: SyncGroupRequest) -> SyncGroupResponse:
    """Ask the group's coordinator."""
    try:
        return await ctx.services.groups.call(
            request.group_id,
            lambda shard, token, now_ms: shard.sync_group(request, ctx.caller(), token, now_ms),
            SyncGroupResponse,
        )
    except CoordinatorError as error:
        return SyncGroupResponse(error_code=error.error)
