"""AddRaftVoter (API 80), versions 0 to 1: a replica that follows the metadata log becomes a voter (KIP-853).

Version 1 may be answered before the change is committed (KIP-1186). With `kraft.version` 0 the voters are fixed.
"""

from typing import Final

from odradek.coordinator.quorum.voters import ReplicaKey
from odradek.gateway.handling.metadata_log import voter_changes
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from odradek.wire.schema.types import ZERO_UUID

REQUEST: Final = AddRaftVoterRequest


async def handle(ctx: RequestContext, request: AddRaftVoterRequest) -> AddRaftVoterResponse:
    """Add the voter, if this node is the quorum's leader."""
    quorum = ctx.services.quorum
    if request.cluster_id not in (None, ctx.services.cluster_id):
        return _answer(ErrorCode.INCONSISTENT_CLUSTER_ID, "The request is for another cluster.")
    if quorum.core.leadership is None:
        return _answer(ErrorCode.NOT_LEADER_OR_FOLLOWER, None)
    if request.voter_id < 0 or request.voter_directory_id == ZERO_UUID:
        return _answer(ErrorCode.INVALID_REQUEST, "The voter's id or directory is missing.")
    endpoints = {each.name: (each.host, each.port) for each in request.listeners}
    listener = quorum.settings.listener
    if not endpoints or (listener and listener not in endpoints):
        return _answer(ErrorCode.INVALID_REQUEST, f"The voter's listeners lack that for controllers, {listener}.")
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    change = await voter_changes(ctx).add(key, endpoints, waits=request.ack_when_committed)
    return _answer(change.error, change.message)


def _answer(error: ErrorCode, message: str | None) -> AddRaftVoterResponse:
    return AddRaftVoterResponse(error_code=error, error_message=message or (error.message if error else None))
