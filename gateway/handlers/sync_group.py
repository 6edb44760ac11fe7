"""SyncGroup (API 14), versions 0 to 5: get a member's assignment in a generation."""

from typing import Final

from odradek.gateway.env.completion import Completion
from odradek.gateway.handling.coordinators import deferred_answer
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

REQUEST: Final = SyncGroupRequest


async def handle(ctx: RequestContext, request: SyncGroupRequest) -> Completion[SyncGroupResponse]:
    """Pass the request to the group's coordinator; it answers when the leader has sent the assignments."""
    begun = ctx.services.groups.begin(
        request.group_id,
        lambda shard, token, now_ms: shard.sync_group(request, ctx.client_info(), token, now_ms),
    )
    return await deferred_answer(ctx, begun, SyncGroupResponse, _refused)


def _refused(error: ErrorCode) -> SyncGroupResponse:
    # The Java consumer ends with an exception for COORDINATOR_LOAD_IN_PROGRESS here. The rebalance is lost while the
    # group is loaded, so the member joins again.
    loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS if loading else error)
