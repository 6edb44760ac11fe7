"""DeleteGroups (API 42), versions 0 to 2: delete groups without members, and their offsets (KIP-229)."""

from typing import Final

from odradek.gateway.handling.coordinators import answer_of_coordinator
from odradek.gateway.server.context import RequestContext
from odradek.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

REQUEST: Final = DeleteGroupsRequest


async def handle(ctx: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    """Delete each group separately: an error of one does not affect the others. A repeated name counts once."""
    names = dict.fromkeys(request.groups_names)
    return DeleteGroupsResponse(results=tuple([await _delete(ctx, group_id) for group_id in names]))


async def _delete(ctx: RequestContext, group_id: str) -> DeletableGroupResult:
    await ctx.take_turns()
    deleted = ctx.services.groups.call(
        group_id,
        lambda shard, token, now_ms: shard.delete_group(group_id, ctx.client_info(), token, now_ms),
        DeletableGroupResult,
    )
    return await answer_of_coordinator(deleted, lambda error: DeletableGroupResult(group_id=group_id, error_code=error))
