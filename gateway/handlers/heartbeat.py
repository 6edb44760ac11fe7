"""Heartbeat (API 12), versions 0 to 4: stay in a group."""

from typing import Final

from odradek.gateway.errors import CoordinatorError
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

REQUEST: Final = HeartbeatRequest


async def handle(ctx: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
    """Answer with what the group's shard decides."""
    try:
        return await ctx.services.groups.call(
            request.group_id,
            lambda shard, token, now_ms: shard.heartbeat(request, ctx.caller(), token, now_ms),
            HeartbeatResponse,
            reads=True,
        )
    except CoordinatorError as error:
        if error.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return HeartbeatResponse()  # as Kafka: all sessions begin anew when the groups are loaded
        return HeartbeatResponse(error_code=error.error)
