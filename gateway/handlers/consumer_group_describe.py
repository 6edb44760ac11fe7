"""ConsumerGroupDescribe (API 69), versions 0 and 1: epochs, members and assignments of consumer groups (KIP-848).

Refused with UNSUPPORTED_VERSION in the same cases as ConsumerGroupHeartbeat.
"""

from dataclasses import replace
from typing import Final

from odradek.gateway.handling.authorized_operations import GROUP_OPERATIONS
from odradek.gateway.handling.coordinators import answer_of_coordinator
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

REQUEST: Final = ConsumerGroupDescribeRequest


async def handle(ctx: RequestContext, request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
    """Describe the requested groups, in their order, each once."""
    groups = [await _describe(ctx, group_id) for group_id in dict.fromkeys(request.group_ids)]
    if request.include_authorized_operations:
        groups = [
            group if group.error_code else replace(group, authorized_operations=GROUP_OPERATIONS) for group in groups
        ]
    return ConsumerGroupDescribeResponse(groups=tuple(groups))


async def _describe(ctx: RequestContext, group_id: str) -> DescribedGroup:
    if not ctx.services.consumer_groups_enabled():
        return DescribedGroup(group_id=group_id, error_code=ErrorCode.UNSUPPORTED_VERSION)
    if not group_id:
        return DescribedGroup(group_id=group_id, error_code=ErrorCode.INVALID_GROUP_ID)
    described = ctx.services.groups.call(
        group_id,
        lambda shard, token, now_ms: shard.describe_consumer_group(group_id, token, now_ms),
        DescribedGroup,
        reads=True,
    )
    return await answer_of_coordinator(described, lambda error: DescribedGroup(group_id=group_id, error_code=error))
