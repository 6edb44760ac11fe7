"""ConsumerGroupHeartbeat (API 68), versions 0 and 1: the only request of a consumer group's members (KIP-848).

Refused with UNSUPPORTED_VERSION if `group.coordinator.rebalance.protocols` does not contain `consumer`, or the
cluster's `group.version` is 0.
"""

from typing import Final

from odradek.gateway.handling.coordinators import answer_of_coordinator
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

REQUEST: Final = ConsumerGroupHeartbeatRequest


async def handle(ctx: RequestContext, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
    """Pass the request to the group's coordinator."""
    if not ctx.services.consumer_groups_enabled():
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if request.subscribed_topic_regex:
        await ctx.services.groups.regexes.prepare(request.subscribed_topic_regex)
    decided = ctx.services.groups.call(
        request.group_id,
        lambda shard, token, now_ms: shard.consumer_group_heartbeat(
            request, ctx.client_info(joins=not request.member_id), token, now_ms
        ),
        ConsumerGroupHeartbeatResponse,
    )
    return await answer_of_coordinator(decided, lambda error: ConsumerGroupHeartbeatResponse(error_code=error))
