"""ControllerRegistration (API 70), version 0: registers a controller's listeners and features (KIP-919)."""

from typing import Final

from odradek.coordinator.metadata.controller.broker_registration import controller_registration
from odradek.gateway.handling.metadata import decided
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse

REQUEST: Final = ControllerRegistrationRequest


async def handle(ctx: RequestContext, request: ControllerRegistrationRequest) -> ControllerRegistrationResponse:
    """Decide in the metadata shard, if this node is the active controller; the response follows the commit."""

    def refused(error: ErrorCode) -> ControllerRegistrationResponse:
        return ControllerRegistrationResponse(error_code=error)

    return await decided(ctx, controller_registration, request, refused)
