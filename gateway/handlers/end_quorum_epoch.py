"""EndQuorumEpoch (API 54), versions 0 to 1: the leader of the metadata quorum resigns (KIP-595)."""

from typing import Final

from odradek.gateway.handling.metadata_log import error_of_cluster, note_refused
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse

REQUEST: Final = EndQuorumEpochRequest


async def handle(ctx: RequestContext, request: EndQuorumEpochRequest) -> EndQuorumEpochResponse:
    """Let the quorum's state machine decide; its changes are durable before the response is sent."""
    quorum = ctx.services.quorum
    error = error_of_cluster(ctx, request.cluster_id)
    asked = quorum.messages.asked_end(request)
    if error or asked is None:
        return EndQuorumEpochResponse(error_code=error or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    answer = await quorum.ask(lambda now_ms: quorum.core.end_epoch(asked, now_ms))
    note_refused(ctx, answer.error, asked.epoch)
    return quorum.messages.end_response(answer)
