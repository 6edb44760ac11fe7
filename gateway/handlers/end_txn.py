"""EndTxn (API 26), versions 0 to 5: commit or abort (KIP-98). Answered when the decision is on disk; markers follow.

From version 5 on every end raises the epoch, and the answer says with which one to go on (KIP-890).
"""

from typing import Final

from odradek.coordinator.transactions.add import Claim
from odradek.coordinator.transactions.version import version_of_end_txn
from odradek.gateway.errors import CoordinatorError, fencing_error
from odradek.gateway.server.context import RequestContext
from odradek.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

REQUEST: Final = EndTxnRequest
FENCED_SINCE: Final = 2


async def handle(ctx: RequestContext, request: EndTxnRequest) -> EndTxnResponse:
    """Decide."""
    claim = Claim(request.transactional_id, request.producer_id, request.producer_epoch)
    try:
        ended = await ctx.services.transactions.end_transaction(
            claim, committed=request.committed, version=version_of_end_txn(ctx.api_version)
        )
    except CoordinatorError as unavailable:
        return EndTxnResponse(error_code=unavailable.error)
    error = fencing_error(ended.error, ctx.api_version, FENCED_SINCE)
    return EndTxnResponse(error_code=error, producer_id=ended.producer_id, producer_epoch=ended.producer_epoch)
