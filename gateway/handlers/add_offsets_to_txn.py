"""AddOffsetsToTxn (API 25), versions 0 to 4: a producer says of which group it will commit offsets (KIP-98)."""

from typing import Final

from odradek.coordinator.transactions.add import Claim
from odradek.gateway.errors import CoordinatorError, fencing_error
from odradek.gateway.server.context import RequestContext
from odradek.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

REQUEST: Final = AddOffsetsToTxnRequest
FENCED_SINCE: Final = 2


async def handle(ctx: RequestContext, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    """Let the partition of the offsets topic that holds the group take part."""
    claim = Claim(request.transactional_id, request.producer_id, request.producer_epoch)
    try:
        await ctx.services.groups.ensure_topic()
        error = await ctx.services.transactions.add_offsets(claim, request.group_id)
    except CoordinatorError as unavailable:
        return AddOffsetsToTxnResponse(error_code=unavailable.error)
    return AddOffsetsToTxnResponse(error_code=fencing_error(error, ctx.api_version, FENCED_SINCE))
