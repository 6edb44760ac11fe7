"""OffsetCommit (API 8), versions 2 to 9: note how far a group, or a consumer on its own, has read.

Partitions that do not exist are refused here, as Kafka's API layer does; the coordinator sees the rest.
"""

from dataclasses import replace
from typing import Final

from gateway.context import RequestContext
from gateway.runtime.shards import CoordinatorError, TooLargeError
from wire.errors import ErrorCode
from wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

REQUEST: Final = OffsetCommitRequest


async def handle(ctx: RequestContext, request: OffsetCommitRequest) -> OffsetCommitResponse:
    """Commit what exists; answer in the order asked."""
    known = [await _known(ctx, topic) for topic in request.topics]
    accepted = replace(request, topics=tuple([topic for topic in known if topic.partitions]))
    if request.topics and not accepted.topics:
        return _answer(request, {})
    try:
        response = await ctx.services.groups.call(
            request.group_id,
            lambda shard, token, now_ms: shard.offset_commit(accepted, ctx.caller(), token, now_ms),
            OffsetCommitResponse,
        )
    except TooLargeError:
        return _answer(request, _all(accepted, ErrorCode.INVALID_COMMIT_OFFSET_SIZE))
    except CoordinatorError as error:
        return _answer(request, _all(accepted, error.error))
    return _answer(request, _codes(response))


_Codes = dict[tuple[str, int], int]


async def _known(ctx: RequestContext, topic: OffsetCommitRequestTopic) -> OffsetCommitRequestTopic:
    await ctx.take_turns()
    image = ctx.services.metadata.image.topic(topic.name)
    if image is None:
        return replace(topic, partitions=())
    count = len(image.partitions)
    existing = tuple([part for part in topic.partitions if 0 <= part.partition_index < count])
    return replace(topic, topic_id=image.topic_id, partitions=existing)


def _all(request: OffsetCommitRequest, error: ErrorCode) -> _Codes:
    return {(topic.name, part.partition_index): error for topic in request.topics for part in topic.partitions}


def _codes(response: OffsetCommitResponse) -> _Codes:
    return {
        (topic.name, part.partition_index): part.error_code for topic in response.topics for part in topic.partitions
    }


def _answer(request: OffsetCommitRequest, codes: _Codes) -> OffsetCommitResponse:
    def answer(topic: str, part: OffsetCommitRequestPartition) -> OffsetCommitResponsePartition:
        code = codes.get((topic, part.partition_index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=code)

    topics = [
        OffsetCommitResponseTopic(name=topic.name, partitions=tuple([answer(topic.name, p) for p in topic.partitions]))
        for topic in request.topics
    ]
    return OffsetCommitResponse(topics=tuple(topics))
