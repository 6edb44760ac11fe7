"""DescribeTransactions (API 65), version 0: the state of transactional ids, for tools (KIP-664)."""

from typing import Final

from odradek.gateway.handling.coordinators import answer_of_coordinator
from odradek.gateway.server.context import RequestContext
from odradek.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)

REQUEST: Final = DescribeTransactionsRequest


async def handle(ctx: RequestContext, request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
    """Request each id's state from its coordinator, in order, each once."""
    asked = dict.fromkeys(request.transactional_ids)
    described = [await _describe(ctx, transactional_id) for transactional_id in asked]
    return DescribeTransactionsResponse(transaction_states=tuple(described))


async def _describe(ctx: RequestContext, transactional_id: str) -> TransactionState:
    await ctx.take_turns()
    described = ctx.services.transactions.call(
        transactional_id,
        lambda shard, token, now_ms: shard.describe_transaction(transactional_id, token, now_ms),
        TransactionState,
        reads=True,
    )
    return await answer_of_coordinator(
        described, lambda error: TransactionState(transactional_id=transactional_id, error_code=error)
    )
