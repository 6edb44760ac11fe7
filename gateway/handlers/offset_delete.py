"""OffsetDelete (API 47), version 0: delete a group's offsets in topics that it does not read (KIP-496).

Partitions that do not exist are refused here, as in Kafka's API layer. The coordinator handles the others. It is called
even if none is left, since its errors (NOT_COORDINATOR, no such group) take precedence.
"""

from dataclasses import replace
from typing import Final

from odradek.gateway.handling.coordinators import answer_of_coordinator
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

REQUEST: Final = OffsetDeleteRequest


async def handle(ctx: RequestContext, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    """Pass existing partitions to the group's coordinator; the results are in the order of the request."""
    known = [_known(ctx, topic) for topic in request.topics]
    ctx.will_answer(sum([len(topic.partitions) for topic in known]))
    asked = replace(request, topics=tuple([topic for topic in known if topic.partitions]))
    decided = ctx.services.groups.call(
        request.group_id,
        lambda shard, token, now_ms: shard.offset_delete(asked, ctx.client_info(), token, now_ms),
        OffsetDeleteResponse,
    )
    response = await answer_of_coordinator(decided, lambda error: OffsetDeleteResponse(error_code=error))
    return response if response.error_code else _answer(request, response)


def _known(ctx: RequestContext, topic: OffsetDeleteRequestTopic) -> OffsetDeleteRequestTopic:
    image = ctx.services.metadata.image.topic(topic.name)
    count = 0 if image is None else len(image.partitions)
    return replace(topic, partitions=tuple([part for part in topic.partitions if 0 <= part.partition_index < count]))


def _answer(request: OffsetDeleteRequest, response: OffsetDeleteResponse) -> OffsetDeleteResponse:
    codes = {
        (topic.name, part.partition_index): part.error_code for topic in response.topics for part in topic.partitions
    }
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topics = [
        OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=tuple(
                [
                    OffsetDeleteResponsePartition(
                        partition_index=part.partition_index,
                        error_code=codes.get((topic.name, part.partition_index), unknown),
                    )
                    for part in topic.partitions
                ]
            ),
        )
        for topic in request.topics
    ]
    return OffsetDeleteResponse(topics=tuple(topics))
