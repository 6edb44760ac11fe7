"""AllocateProducerIds (API 67), version 0: allocates a block of producer ids to a broker (KIP-730)."""

from typing import Final

from odradek.coordinator.metadata.controller.producer_ids import grant_producer_ids
from odradek.gateway.handling.metadata import decided
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

REQUEST: Final = AllocateProducerIdsRequest


async def handle(ctx: RequestContext, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
    """Decide in the metadata shard, if this node is the active controller; the response follows the commit."""

    def refused(error: ErrorCode) -> AllocateProducerIdsResponse:
        return AllocateProducerIdsResponse(error_code=error)

    return await decided(ctx, grant_producer_ids, request, refused)
