"""UnregisterBroker (API 64), version 0: remove a broker that will not return (KIP-500)."""

from typing import Final

from odradek.coordinator.metadata.controller.unregister_broker import unregister_broker
from odradek.gateway.handling.metadata import answer_of_controller
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

REQUEST: Final = UnregisterBrokerRequest


async def handle(ctx: RequestContext, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    """Decide in the metadata shard; the response is sent once the change is committed."""

    def refused(error: ErrorCode) -> UnregisterBrokerResponse:
        return UnregisterBrokerResponse(error_code=error, error_message=error.message)

    return await answer_of_controller(ctx.services.controller.decide(unregister_broker, request), refused)
