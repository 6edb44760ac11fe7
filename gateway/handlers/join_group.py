"""JoinGroup (API 11), versions 0 to 9: enter a classic group, or wait for the next generation."""

from typing import Final

from gateway.context import RequestContext
from gateway.runtime.shards import CoordinatorError
from wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

REQUEST: Final = JoinGroupRequest


async def handle(ctx: RequestContext, request: JoinGroupRequest) -> JoinGroupResponse:
    """Ask the group's coordinator."""
    try:
        return await ctx.services.groups.call(
            request.group_id,
            lambda shard, token, now_ms: shard.join_group(request, ctx.caller(joins=True), token, now_ms),
            JoinGroupResponse,
        )
    except CoordinatorError as error:
        return JoinGroupResponse(error_code=error.error)
