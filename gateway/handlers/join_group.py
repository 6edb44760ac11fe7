"""JoinGroup (API 11), versions 0 to 9: join a classic group, or wait for the next generation."""

from typing import Final

from odradek.coordinator.groups.classic.responses import refusals_protocol_name
from odradek.gateway.env.completion import Completion
from odradek.gateway.handling.coordinators import deferred_answer
from odradek.gateway.server.context import RequestContext
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

REQUEST: Final = JoinGroupRequest


async def handle(ctx: RequestContext, request: JoinGroupRequest) -> Completion[JoinGroupResponse]:
    """Pass the request to the group's coordinator; it answers when the join phase ends."""
    begun = ctx.services.groups.begin(
        request.group_id,
        lambda shard, token, now_ms: shard.join_group(request, ctx.client_info(joins=True), token, now_ms),
    )
    name = refusals_protocol_name(ctx.api_version)
    return await deferred_answer(
        ctx, begun, JoinGroupResponse, lambda error: JoinGroupResponse(error_code=error, protocol_name=name)
    )
