"""Vote (API 52), versions 0 to 2: a candidate requests a vote in the metadata quorum (KIP-595, KIP-853, KIP-996)."""

from typing import Final

from odradek.gateway.handling.metadata_log import error_of_cluster, note_refused
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.vote import VoteRequest, VoteResponse

REQUEST: Final = VoteRequest


async def handle(ctx: RequestContext, request: VoteRequest) -> VoteResponse:
    """Let the quorum's state machine decide; its changes are durable before the response is sent."""
    quorum = ctx.services.quorum
    error = error_of_cluster(ctx, request.cluster_id)
    asked = quorum.messages.asked_vote(request)
    if error or asked is None:
        return VoteResponse(error_code=error or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    answer = await quorum.ask(lambda now_ms: quorum.core.vote(asked, now_ms))
    note_refused(ctx, answer.error, asked.epoch)
    return quorum.messages.vote_response(answer)
