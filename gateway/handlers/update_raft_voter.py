"""UpdateRaftVoter (API 82), version 0: a voter reports its listeners and supported `kraft.version`s (KIP-853).

The response is sent before the change is committed, as in Kafka. It contains the leader, also with an error.
"""

from typing import Final

from odradek.coordinator.quorum.voters import ReplicaKey, Voter
from odradek.gateway.handling.metadata_log import error_of_cluster, voter_changes
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.update_raft_voter import CurrentLeader, UpdateRaftVoterRequest, UpdateRaftVoterResponse
from odradek.wire.schema.types import ZERO_UUID

REQUEST: Final = UpdateRaftVoterRequest


async def handle(ctx: RequestContext, request: UpdateRaftVoterRequest) -> UpdateRaftVoterResponse:
    """Update the voter, if this node is the quorum's leader."""
    quorum, feature = ctx.services.quorum, request.kraft_version_feature
    error = error_of_cluster(ctx, request.cluster_id) or quorum.core.check_fetch(request.current_leader_epoch)
    if error:
        return _answer(ctx, error)
    endpoints = {each.name: (each.host, each.port) for each in request.listeners}
    levels = (feature.min_supported_version, feature.max_supported_version)
    has_key = request.voter_id >= 0 and request.voter_directory_id != ZERO_UUID
    if not has_key or quorum.settings.listener not in endpoints or not 0 <= levels[0] <= levels[1]:
        return _answer(ctx, ErrorCode.INVALID_REQUEST)
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    change = await voter_changes(ctx).update(Voter(key, endpoints, levels))
    return _answer(ctx, change.error)


def _answer(ctx: RequestContext, error: ErrorCode) -> UpdateRaftVoterResponse:
    quorum = ctx.services.quorum
    leader_id = quorum.core.leader_id
    host, port = quorum.endpoint_of(leader_id) or ("", 0)
    leader = CurrentLeader(leader_id=leader_id, leader_epoch=quorum.core.epoch, host=host, port=port)
    return UpdateRaftVoterResponse(error_code=error, current_leader=leader)
