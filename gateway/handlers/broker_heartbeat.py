"""BrokerHeartbeat (API 63), versions 0 to 1: a broker renews its session, and requests state changes (KIP-631)."""

from typing import Final

from odradek.coordinator.metadata.controller.broker_heartbeat import broker_heartbeat
from odradek.gateway.handling.metadata import decided
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

REQUEST: Final = BrokerHeartbeatRequest


async def handle(ctx: RequestContext, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
    """Decide in the metadata shard, if this node is the active controller; the response follows the commit."""

    def refused(error: ErrorCode) -> BrokerHeartbeatResponse:
        return BrokerHeartbeatResponse(error_code=error)

    return await decided(ctx, broker_heartbeat, request, refused)
