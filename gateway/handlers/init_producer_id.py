"""InitProducerId (API 22), versions 0 to 5, for idempotent producers (KIP-98, KIP-360).

Gaps: transactional ids come with the transaction coordinator; until then they are told that there is none.
"""

from typing import Final

from gateway.context import RequestContext
from gateway.runtime.shards import CoordinatorError
from wire.errors import ErrorCode
from wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

REQUEST: Final = InitProducerIdRequest


async def handle(ctx: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Give out a producer id that nobody has, with epoch 0."""
    if request.transactional_id is not None:
        return _refused(ErrorCode.COORDINATOR_NOT_AVAILABLE if request.transactional_id else ErrorCode.INVALID_REQUEST)
    try:
        producer_id = await ctx.services.producer_ids.allocate()
    except CoordinatorError:
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)
