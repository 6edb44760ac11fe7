"""DescribeGroups (API 15), versions 0 to 6: members, protocol and state of classic groups."""

from dataclasses import replace
from typing import Final

from odradek.gateway.handling.authorized_operations import GROUP_OPERATIONS
from odradek.gateway.handling.coordinators import answer_of_coordinator
from odradek.gateway.server.context import RequestContext
from odradek.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

REQUEST: Final = DescribeGroupsRequest


async def handle(ctx: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    """Describe the requested groups, in their order, each once."""
    groups = [await _describe(ctx, group_id) for group_id in dict.fromkeys(request.groups)]
    if request.include_authorized_operations:
        groups = [
            group if group.error_code else replace(group, authorized_operations=GROUP_OPERATIONS) for group in groups
        ]
    return DescribeGroupsResponse(groups=tuple(groups))


async def _describe(ctx: RequestContext, group_id: str) -> DescribedGroup:
    await ctx.take_turns()
    described = ctx.services.groups.call(
        group_id,
        lambda shard, token, now_ms: shard.describe_group(group_id, ctx.client_info(), token, now_ms),
        DescribedGroup,
        reads=True,
    )
    return await answer_of_coordinator(described, lambda error: DescribedGroup(group_id=group_id, error_code=error))
