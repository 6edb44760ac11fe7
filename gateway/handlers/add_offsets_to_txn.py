"""AddOffsetsToTxn (API 25), versions 0 to 4: a producer adds a group's offsets to its transaction (KIP-98)."""

from typing import Final

from odradek.coordinator.transactions.add import ProducerIdentity
from odradek.gateway.handling.coordinators import answer_of_coordinator, fencing_error
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

REQUEST: Final = AddOffsetsToTxnRequest
FENCED_SINCE: Final = 2


async def handle(ctx: RequestContext, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    """Add the partition of the offsets topic that owns the group to the transaction."""
    error = await answer_of_coordinator(_added(ctx, request), lambda error: error)
    return AddOffsetsToTxnResponse(error_code=fencing_error(error, ctx.api_version, FENCED_SINCE))


async def _added(ctx: RequestContext, request: AddOffsetsToTxnRequest) -> ErrorCode:
    producer = ProducerIdentity(request.transactional_id, request.producer_id, request.producer_epoch)
    await ctx.services.groups.ensure_topic()
    return await ctx.services.transactions.add_offsets(producer, request.group_id)
