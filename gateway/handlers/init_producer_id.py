"""InitProducerId (API 22), versions 0 to 5, for idempotent and transactional producers (KIP-98, KIP-360)."""

from typing import Final

from odradek.gateway.handling.coordinators import answer_of_coordinator, fencing_error
from odradek.gateway.handling.metadata import answer_of_controller
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

REQUEST: Final = InitProducerIdRequest
FENCED_SINCE: Final = 4
"""From this version on, producers know PRODUCER_FENCED."""


async def handle(ctx: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Allocate an unused producer id, with epoch 0; or, for a transactional id, return its id with the next epoch."""
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        return await _idempotent(ctx)
    response = await answer_of_coordinator(ctx.services.transactions.init_producer_id(request), _refused)
    error = fencing_error(response.error_code, ctx.api_version, FENCED_SINCE)
    return _refused(error) if error else response


async def _idempotent(ctx: RequestContext) -> InitProducerIdResponse:
    # as in Kafka while it has no block of producer ids: producers retry on this code
    def unavailable(_: ErrorCode) -> InitProducerIdResponse:
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    return await answer_of_controller(_fresh(ctx), unavailable)


async def _fresh(ctx: RequestContext) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=await ctx.services.producer_ids.allocate(), producer_epoch=0)


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)
