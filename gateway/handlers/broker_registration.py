"""BrokerRegistration (API 62), versions 0 to 4: a started broker joins the cluster (KIP-631)."""

from typing import Final

from odradek.coordinator.metadata.controller.broker_registration import broker_registration
from odradek.gateway.handling.metadata import decided
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

REQUEST: Final = BrokerRegistrationRequest


async def handle(ctx: RequestContext, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
    """Decide in the metadata shard, if this node is the active controller; the response follows the commit."""

    def refused(error: ErrorCode) -> BrokerRegistrationResponse:
        return BrokerRegistrationResponse(error_code=error)

    return await decided(ctx, broker_registration, request, refused)
