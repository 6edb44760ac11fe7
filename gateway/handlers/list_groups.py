"""ListGroups (API 16), versions 0 to 5: all groups of this broker, by state from 4, by type from 5."""

from typing import Final

from odradek.gateway.handling.coordinators import answer_of_coordinator
from odradek.gateway.server.context import RequestContext
from odradek.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

REQUEST: Final = ListGroupsRequest


async def handle(ctx: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    """Collect the groups of every shard."""
    return await answer_of_coordinator(_collected(ctx, request), lambda error: ListGroupsResponse(error_code=error))


async def _collected(ctx: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    parts = await ctx.services.groups.call_all(
        lambda shard, token, now_ms: shard.list_groups(request, ctx.client_info(), token, now_ms), ListGroupsResponse
    )
    groups = tuple([group for part in parts for group in part.groups])
    ctx.will_answer(len(groups))
    return ListGroupsResponse(groups=groups)
