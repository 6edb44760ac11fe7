"""AddRaftVoter (API 80), versions 0 to 1: the quorum is this broker, and stays so (`kraft.version` 0, KIP-853)."""

from typing import Final

from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from odradek.wire.schema.types import ZERO_UUID

REQUEST: Final = AddRaftVoterRequest


async def handle(ctx: RequestContext, request: AddRaftVoterRequest) -> AddRaftVoterResponse:
    """Refuse as Kafka does with a fixed set of voters, after it has looked at what was asked."""
    if request.cluster_id not in (None, ctx.services.cluster_id):
        return _refused(ErrorCode.INCONSISTENT_CLUSTER_ID, "The request is for another cluster.")
    if request.voter_id < 0 or request.voter_directory_id == ZERO_UUID:
        return _refused(ErrorCode.INVALID_REQUEST, "The voter's id or directory is missing.")
    if not request.listeners:
        return _refused(ErrorCode.INVALID_REQUEST, "The voter's listeners are missing.")
    return _refused(ErrorCode.UNSUPPORTED_VERSION, "kraft.version is 0: the set of voters is fixed.")


def _refused(error: ErrorCode, message: str) -> AddRaftVoterResponse:
    return AddRaftVoterResponse(error_code=error, error_message=message)
