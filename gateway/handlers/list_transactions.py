"""ListTransactions (API 66), versions 0 to 2: the transactional ids of this broker, for tools (KIP-664, KIP-994).

From version 2 on a regular expression can select ids that match as a whole; none, or an empty one, means all
(KIP-1152).
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from odradek.coordinator.regex import InvalidRegex, Matcher
from odradek.coordinator.transactions.describe import Filters, matching
from odradek.gateway.handling.coordinators import answer_of_coordinator
from odradek.gateway.server.context import TURN_EVERY, RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse, TransactionState

REQUEST: Final = ListTransactionsRequest


async def handle(ctx: RequestContext, request: ListTransactionsRequest) -> ListTransactionsResponse:
    """Collect the ids of every shard."""
    collected = _collected(ctx, request)
    return await answer_of_coordinator(collected, lambda error: ListTransactionsResponse(error_code=error))


async def _collected(ctx: RequestContext, request: ListTransactionsRequest) -> ListTransactionsResponse:
    filters = Filters.of(request)
    parts = await ctx.services.transactions.call_all(
        lambda shard, token, now_ms: shard.list_transactions(filters, token, now_ms), ListTransactionsResponse
    )
    states = [state for part in parts for state in part.transaction_states]
    if request.transactional_id_pattern:
        try:
            states = await _matching(ctx, request.transactional_id_pattern, states)
        except InvalidRegex:
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    return ListTransactionsResponse(
        unknown_state_filters=filters.unknown_states,
        transaction_states=tuple(states),
    )


async def _matching(ctx: RequestContext, pattern: str, states: Sequence[TransactionState]) -> list[TransactionState]:
    """The states with matching ids. Raises InvalidRegex.

    Runs in worker threads, for some ids at a time, since the client determines the cost of a match.
    """
    run = ctx.services.matching.run
    matcher = await run(partial(Matcher, pattern))
    found: list[TransactionState] = []
    for at in range(0, len(states), TURN_EVERY):
        found += await run(partial(matching, matcher, states[at : at + TURN_EVERY]))
    return found
