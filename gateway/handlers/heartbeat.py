"""Heartbeat (API 12), versions 0 to 4: stay in a group."""

from typing import Final

from odradek.gateway.handling.coordinators import answer_of_coordinator
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

REQUEST: Final = HeartbeatRequest


async def handle(ctx: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
    """Answer with what the group's shard decides."""
    decided = ctx.services.groups.call(
        request.group_id,
        lambda shard, token, now_ms: shard.heartbeat(request, ctx.client_info(), token, now_ms),
        HeartbeatResponse,
        reads=True,
    )
    return await answer_of_coordinator(decided, _refused)


def _refused(error: ErrorCode) -> HeartbeatResponse:
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return HeartbeatResponse()  # as Kafka: all sessions begin anew when the groups are loaded
    return HeartbeatResponse(error_code=error)
