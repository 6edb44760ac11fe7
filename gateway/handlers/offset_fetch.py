"""OffsetFetch (API 9), versions 1 to 10: committed offsets of groups; of several groups at once from 8 (KIP-709).

From version 10 on topics have ids. An offset committed for a topic that was deleted since is not returned for a newer
topic of the same name; before version 10 the name means the topic that has it now.
"""

from dataclasses import replace
from functools import partial
from typing import Final

from odradek.gateway.handling.coordinators import answer_of_coordinator
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

REQUEST: Final = OffsetFetchRequest
TOPIC_IDS_SINCE: Final = 10
BATCHED_SINCE: Final = 8
GROUP_ERROR_SINCE: Final = 2
"""Before this version an error of the group is repeated for every partition."""


async def handle(ctx: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Pass the request to each group's coordinator."""
    if ctx.api_version >= BATCHED_SINCE:
        return OffsetFetchResponse(
            groups=tuple([await _group(ctx, group, request.require_stable) for group in request.groups])
        )
    found = ctx.services.groups.call(
        request.group_id,
        lambda shard, token, now_ms: shard.offset_fetch(request, ctx.client_info(), token, now_ms),
        OffsetFetchResponse,
        reads=True,
    )
    return await answer_of_coordinator(found, partial(_refused, request, ctx.api_version))


async def _group(ctx: RequestContext, group: OffsetFetchRequestGroup, require_stable: bool) -> OffsetFetchResponseGroup:
    by_id = ctx.api_version >= TOPIC_IDS_SINCE
    await ctx.take_turns()
    asked = None
    if group.topics is not None:
        asked = tuple([await _resolved(ctx, topic, by_id) for topic in group.topics])
    known = asked if asked is None else tuple([topic for topic in asked if topic.name or not by_id])
    finding = ctx.services.groups.call(
        group.group_id,
        lambda shard, token, now_ms: shard.offset_fetch_group(
            replace(group, topics=known), require_stable, token, now_ms
        ),
        OffsetFetchResponseGroup,
        reads=True,
    )
    found = await answer_of_coordinator(
        finding,
        lambda error: OffsetFetchResponseGroup(group_id=group.group_id, error_code=_for_consumers(error)),
    )
    ctx.will_answer(sum([len(topic.partitions) for topic in found.topics]))
    if not by_id or found.error_code:
        return found
    if asked is None:
        return replace(found, topics=_with_ids(ctx, found.topics))
    unknown = [_unknown(topic) for topic in asked if not topic.name]
    return replace(found, topics=(*found.topics, *unknown))


async def _resolved(ctx: RequestContext, topic: OffsetFetchRequestTopics, by_id: bool) -> OffsetFetchRequestTopics:
    """Add the missing name or id, if there is such a topic."""
    await ctx.take_turns()
    image = ctx.services.metadata.image
    if by_id:
        return replace(topic, name=ctx.services.metadata.topic_name(topic.topic_id) or "")
    found = image.topic(topic.name)
    return topic if found is None else replace(topic, topic_id=found.topic_id)


def _with_ids(
    ctx: RequestContext, topics: tuple[OffsetFetchResponseTopics, ...]
) -> tuple[OffsetFetchResponseTopics, ...]:
    """The topics that have an id, without which they cannot be in the response."""
    found = [(topic, ctx.services.metadata.image.topic(topic.name)) for topic in topics]
    return tuple([replace(topic, topic_id=image.topic_id) for topic, image in found if image is not None])


def _unknown(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    partitions = [
        OffsetFetchResponsePartitions(partition_index=index, committed_offset=-1, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
        for index in topic.partition_indexes
    ]
    return OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=tuple(partitions))


def _for_consumers(error: ErrorCode) -> ErrorCode:
    """As in Kafka: for consumers before 3.9 COORDINATOR_NOT_AVAILABLE is fatal, while NOT_COORDINATOR is not."""
    return ErrorCode.NOT_COORDINATOR if error is ErrorCode.COORDINATOR_NOT_AVAILABLE else error


def _refused(request: OffsetFetchRequest, api_version: int, unavailable: ErrorCode) -> OffsetFetchResponse:
    error = _for_consumers(unavailable)
    if api_version >= GROUP_ERROR_SINCE:
        return OffsetFetchResponse(error_code=error)
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
