"""RemoveRaftVoter (API 81), version 0: a voter of the metadata log becomes an observer (KIP-853).

A leader that removes itself resigns once that is committed. With `kraft.version` 0 the voters are fixed.
"""

from typing import Final

from odradek.coordinator.quorum.voters import ReplicaKey
from odradek.gateway.handling.metadata_log import voter_changes
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from odradek.wire.schema.types import ZERO_UUID

REQUEST: Final = RemoveRaftVoterRequest


async def handle(ctx: RequestContext, request: RemoveRaftVoterRequest) -> RemoveRaftVoterResponse:
    """Remove the voter, if this node is the quorum's leader; the response is sent once the change is committed."""
    if request.cluster_id not in (None, ctx.services.cluster_id):
        return _answer(ErrorCode.INCONSISTENT_CLUSTER_ID, "The request is for another cluster.")
    if ctx.services.quorum.core.leadership is None:
        return _answer(ErrorCode.NOT_LEADER_OR_FOLLOWER, None)
    if request.voter_id < 0 or request.voter_directory_id == ZERO_UUID:
        return _answer(ErrorCode.INVALID_REQUEST, "The voter's id or directory is missing.")
    change = await voter_changes(ctx).remove(ReplicaKey(request.voter_id, request.voter_directory_id))
    return _answer(change.error, change.message)


def _answer(error: ErrorCode, message: str | None) -> RemoveRaftVoterResponse:
    return RemoveRaftVoterResponse(error_code=error, error_message=message or (error.message if error else None))
