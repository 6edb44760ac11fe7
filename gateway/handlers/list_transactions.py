"""ListTransactions (API 66), versions 0 to 1: the transactional ids of this broker, for tools (KIP-664, KIP-994).

Gaps: version 2 brings a regular expression of the client's, and matching it may take for ever (KIP-1152).
"""

from typing import Final

from coordinator.transactions.state import STATE_BY_LABEL
from gateway.context import RequestContext
from gateway.runtime.shards import CoordinatorError
from wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

REQUEST: Final = ListTransactionsRequest


async def handle(ctx: RequestContext, request: ListTransactionsRequest) -> ListTransactionsResponse:
    """Collect the ids of every shard."""
    try:
        parts = await ctx.services.transactions.call_all(
            lambda shard, token, now_ms: shard.list_transactions(request, token, now_ms), ListTransactionsResponse
        )
    except CoordinatorError as error:
        return ListTransactionsResponse(error_code=error.error)
    return ListTransactionsResponse(
        unknown_state_filters=tuple([name for name in request.state_filters if name not in STATE_BY_LABEL]),
        transaction_states=tuple([state for part in parts for state in part.transaction_states]),
    )
