"""BeginQuorumEpoch (API 53), versions 0 to 1: a new leader of the metadata quorum announces itself (KIP-595)."""

from typing import Final

from odradek.coordinator.quorum.values import BeginEpoch, EpochAnswer
from odradek.gateway.handling.metadata_log import error_of_cluster, note_refused
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse

REQUEST: Final = BeginQuorumEpochRequest


async def handle(ctx: RequestContext, request: BeginQuorumEpochRequest) -> BeginQuorumEpochResponse:
    """Let the quorum's state machine decide; its changes are durable before the response is sent."""
    quorum = ctx.services.quorum
    error = error_of_cluster(ctx, request.cluster_id)
    asked = quorum.messages.asked_begin(request)
    if error or asked is None:
        return BeginQuorumEpochResponse(error_code=error or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return quorum.messages.begin_response(await quorum.ask(lambda now_ms: _begin(ctx, request, asked, now_ms)))


def _begin(ctx: RequestContext, request: BeginQuorumEpochRequest, asked: BeginEpoch, now_ms: int) -> EpochAnswer:
    """Decide, and note where an accepted leader listens before this node sends it a Fetch."""
    quorum = ctx.services.quorum
    answer = quorum.core.begin_epoch(asked, now_ms)
    note_refused(ctx, answer.error, asked.epoch)
    for each in request.leader_endpoints:
        if not answer.error and each.name == quorum.settings.listener:
            quorum.known_endpoints.leads_at(asked.epoch, asked.leader_id, (each.host, each.port))
    return answer
