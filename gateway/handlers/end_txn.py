"""EndTxn (API 26), versions 0 to 4: commit or abort (KIP-98). Answered when the decision is on disk; markers follow.

Gaps: version 5 raises the epoch with every transaction (KIP-890, transaction.version 2).
"""

from typing import Final

from coordinator.transactions.add import Claim
from gateway.context import RequestContext
from gateway.errors import fencing_error
from gateway.runtime.shards import CoordinatorError
from wire.messages.end_txn import EndTxnRequest, EndTxnResponse

REQUEST: Final = EndTxnRequest
FENCED_SINCE: Final = 2


async def handle(ctx: RequestContext, request: EndTxnRequest) -> EndTxnResponse:
    """Decide."""
    claim = Claim(request.transactional_id, request.producer_id, request.producer_epoch)
    try:
        error = await ctx.services.transactions.end_transaction(claim, committed=request.committed)
    except CoordinatorError as unavailable:
        return EndTxnResponse(error_code=unavailable.error)
    return EndTxnResponse(error_code=fencing_error(error, ctx.api_version, FENCED_SINCE))
