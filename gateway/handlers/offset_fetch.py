"""OffsetFetch (API 9), versions 1 to 9: how far groups have read; several groups at once from 8 (KIP-709)."""

from typing import Final

from gateway.context import RequestContext
from gateway.runtime.shards import CoordinatorError
from wire.errors import ErrorCode
from wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

REQUEST: Final = OffsetFetchRequest
BATCHED_SINCE: Final = 8
GROUP_ERROR_SINCE: Final = 2
"""Before this version an error stands with every partition."""


async def handle(ctx: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Ask each group's coordinator."""
    if ctx.api_version >= BATCHED_SINCE:
        return OffsetFetchResponse(
            groups=tuple([await _group(ctx, group, request.require_stable) for group in request.groups])
        )
    try:
        return await ctx.services.groups.call(
            request.group_id,
            lambda shard, token, now_ms: shard.offset_fetch(request, ctx.caller(), token, now_ms),
            OffsetFetchResponse,
        )
    except CoordinatorError as error:
        told = _as_told(error.error)
        if ctx.api_version >= GROUP_ERROR_SINCE:
            return OffsetFetchResponse(error_code=told)
        return _in_every_partition(request, told)


async def _group(ctx: RequestContext, group: OffsetFetchRequestGroup, require_stable: bool) -> OffsetFetchResponseGroup:
    await ctx.take_turns()
    try:
        return await ctx.services.groups.call(
            group.group_id,
            lambda shard, token, now_ms: shard.offset_fetch_group(group, require_stable, token, now_ms),
            OffsetFetchResponseGroup,
        )
    except CoordinatorError as error:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=_as_told(error.error))


def _as_told(error: ErrorCode) -> ErrorCode:
    """As Kafka: consumers before 3.9 take COORDINATOR_NOT_AVAILABLE for fatal here, and look elsewhere at this one."""
    return ErrorCode.NOT_COORDINATOR if error is ErrorCode.COORDINATOR_NOT_AVAILABLE else error


def _in_every_partition(request: OffsetFetchRequest, error: ErrorCode) -> OffsetFetchResponse:
    topics = [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=tuple(
                [
                    OffsetFetchResponsePartition(partition_index=index, committed_offset=-1, error_code=error)
                    for index in topic.partition_indexes
                ]
            ),
        )
        for topic in request.topics or ()
    ]
    return OffsetFetchResponse(topics=tuple(topics))
