"""LeaveGroup (API 13), versions 0 to 5: leave a group, or remove members from it."""

from typing import Final

from odradek.gateway.handling.coordinators import answer_of_coordinator
from odradek.gateway.server.context import RequestContext
from odradek.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse

REQUEST: Final = LeaveGroupRequest


async def handle(ctx: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse:
    """Pass the request to the group's coordinator."""
    decided = ctx.services.groups.call(
        request.group_id,
        lambda shard, token, now_ms: shard.leave_group(request, ctx.client_info(), token, now_ms),
        LeaveGroupResponse,
    )
    return await answer_of_coordinator(decided, lambda error: LeaveGroupResponse(error_code=error))
