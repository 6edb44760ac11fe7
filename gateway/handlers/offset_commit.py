"""OffsetCommit (API 8), versions 2 to 10: store the offsets up to which a group, or a single consumer, has read.

Partitions that do not exist are refused here, as in Kafka's API layer; the coordinator handles the others. From version
10 on topics have ids (KIP-848), so that an offset of a deleted topic is not committed for a newer topic of its name.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from odradek.coordinator.contract import Outcome, Token
from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.gateway.handling.coordinators import answer_of_coordinator
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from odradek.wire.schema.types import ZERO_UUID

if TYPE_CHECKING:
    from odradek.coordinator.groups.offsets.prepared import Prepared
    from odradek.coordinator.groups.shard import GroupShard

REQUEST: Final = OffsetCommitRequest
TOPIC_IDS_SINCE: Final = 10


async def handle(ctx: RequestContext, request: OffsetCommitRequest) -> OffsetCommitResponse:
    """Commit the offsets of existing partitions; the results are in the order of the request."""
    by_id = ctx.api_version >= TOPIC_IDS_SINCE
    if by_id:
        request = await _with_names(ctx, request)
    ctx.will_answer(sum([len(topic.partitions) for topic in request.topics]))
    image = ctx.services.metadata.image
    known: list[OffsetCommitRequestTopic] = []
    for topic in request.topics:
        await ctx.take_turns()
        known.append(_known(image, topic))
    accepted = replace(request, topics=tuple([topic for topic in known if topic.partitions]))
    if request.topics and not accepted.topics:
        return await ctx.built(lambda: _answer(request, {}, by_id))
    count = sum([len(topic.partitions) for topic in accepted.topics])
    prepared = await ctx.services.groups.prepared(count, lambda now_ms: _prepared(accepted, now_ms))

    def commit(shard: "GroupShard", token: Token, now_ms: int) -> Outcome:
        asked = _still_existing(ctx, accepted, image)
        return shard.offset_commit(asked, ctx.client_info(), token, now_ms, prepared if asked is accepted else None)

    decided = ctx.services.groups.call(request.group_id, commit, OffsetCommitResponse)
    reply = await answer_of_coordinator(decided, lambda error: error, too_large=ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
    return await ctx.built(lambda: _answer(request, _codes(reply, accepted), by_id))


_Codes = dict[tuple[str, int], int]


def _prepared(request: OffsetCommitRequest, now_ms: int) -> "Prepared | None":
    """Encode the records in a worker thread, which also imports the groups' decision code."""
    from odradek.coordinator.groups.offsets.prepared import prepare

    return prepare(request, now_ms)


async def _with_names(ctx: RequestContext, request: OffsetCommitRequest) -> OffsetCommitRequest:
    """The request with the topics' names beside their ids; the name is "" for an id that no topic has."""
    topics: list[OffsetCommitRequestTopic] = []
    for topic in request.topics:
        await ctx.take_turns()
        topics.append(replace(topic, name=ctx.services.metadata.topic_name(topic.topic_id) or ""))
    return replace(request, topics=tuple(topics))


def _still_existing(ctx: RequestContext, accepted: OffsetCommitRequest, seen: MetadataImage) -> OffsetCommitRequest:
    """The part that still exists; a topic may have been deleted while the group's coordinator was being loaded."""
    image = ctx.services.metadata.image
    if image.topics_by_id is seen.topics_by_id:
        return accepted
    known = [_known(image, topic) for topic in accepted.topics]
    return replace(accepted, topics=tuple([topic for topic in known if topic.partitions]))


def _known(metadata: MetadataImage, topic: OffsetCommitRequestTopic) -> OffsetCommitRequestTopic:
    image = metadata.topic(topic.name) if topic.topic_id == ZERO_UUID else metadata.topic_by_id(topic.topic_id)
    if image is None:
        return replace(topic, partitions=())
    count = len(image.partitions)
    existing = tuple([part for part in topic.partitions if 0 <= part.partition_index < count])
    return replace(topic, topic_id=image.topic_id, partitions=existing)


def _codes(reply: OffsetCommitResponse | ErrorCode, accepted: OffsetCommitRequest) -> _Codes:
    """The code of each partition that was passed to the coordinator."""
    if isinstance(reply, ErrorCode):
        return {(topic.name, part.partition_index): reply for topic in accepted.topics for part in topic.partitions}
    return {(topic.name, part.partition_index): part.error_code for topic in reply.topics for part in topic.partitions}


def _answer(request: OffsetCommitRequest, codes: _Codes, by_id: bool) -> OffsetCommitResponse:
    def answer(topic: str, part: OffsetCommitRequestPartition) -> OffsetCommitResponsePartition:
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id and not topic else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        code = codes.get((topic, part.partition_index), unknown)
        return OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=code)

    topics = [
        OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=tuple([answer(topic.name, part) for part in topic.partitions]),
        )
        for topic in request.topics
    ]
    return OffsetCommitResponse(topics=tuple(topics))
