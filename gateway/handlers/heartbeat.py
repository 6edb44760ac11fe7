"""Heartbeat (API 12), versions 0 to 4: a member keeps its session in a group."""

from collections.abc import Awaitable
from typing import Final

from odradek.gateway.handling.coordinators import answer_of_coordinator
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

REQUEST: Final = HeartbeatRequest


def handle(ctx: RequestContext, request: HeartbeatRequest) -> Awaitable[HeartbeatResponse]:
    """Return the response of the group's shard."""
    answer = ctx.services.groups.ask(request.group_id, lambda shard, now_ms: shard.heartbeat(request, now_ms))
    return answer_of_coordinator(answer, _refused)


def _refused(error: ErrorCode) -> HeartbeatResponse:
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return HeartbeatResponse()  # as in Kafka: all sessions restart when the groups are loaded
    return HeartbeatResponse(error_code=error)
