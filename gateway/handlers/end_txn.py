"""EndTxn (API 26), versions 0 to 5: commit or abort (KIP-98).

The response is sent when the decision is committed; the markers follow. From version 5 on every end raises the epoch,
and the response contains the new one (KIP-890).
"""

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from odradek.coordinator.transactions.add import ProducerIdentity
from odradek.coordinator.transactions.version import version_of_end_txn
from odradek.gateway.handling.coordinators import answer_of_coordinator, fencing_error
from odradek.gateway.server.context import RequestContext
from odradek.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from odradek.coordinator.transactions.end import Ended

REQUEST: Final = EndTxnRequest
FENCED_SINCE: Final = 2


async def handle(ctx: RequestContext, request: EndTxnRequest) -> EndTxnResponse:
    """Commit or abort the transaction."""
    producer = ProducerIdentity(request.transactional_id, request.producer_id, request.producer_epoch)
    ending = ctx.services.transactions.end_transaction(
        producer, committed=request.committed, version=version_of_end_txn(ctx.api_version)
    )
    return await answer_of_coordinator(_answer(ctx, ending), lambda error: EndTxnResponse(error_code=error))


async def _answer(ctx: RequestContext, ending: "Awaitable[Ended]") -> EndTxnResponse:
    ended = await ending
    error = fencing_error(ended.error, ctx.api_version, FENCED_SINCE)
    return EndTxnResponse(error_code=error, producer_id=ended.producer_id, producer_epoch=ended.producer_epoch)
