"""DeleteRecords (API 21), versions 0 to 2: move log starts forward (KIP-107); -1 means the high watermark.

Space is freed when whole segments are below the log start. The response is sent once the new log start is durable.
"""

from functools import partial
from typing import Final

from odradek.coordinator.metadata.topic_names import INTERNAL_TOPICS
from odradek.gateway.handling.partitions import answer_of_partition
from odradek.gateway.server.context import RequestContext
from odradek.partitions.results import UNKNOWN_OFFSET, Rejected
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

REQUEST: Final = DeleteRecordsRequest


async def handle(ctx: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Handle each partition separately."""
    topics = [
        DeleteRecordsTopicResult(
            name=topic.name,
            partitions=tuple(
                [
                    await answer_of_partition(_delete(ctx, topic.name, part), partial(_error, part))
                    for part in topic.partitions
                ]
            ),
        )
        for topic in request.topics
    ]
    return DeleteRecordsResponse(topics=tuple(topics))


async def _delete(ctx: RequestContext, topic: str, part: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    await ctx.take_turns()
    if ctx.services.metadata.image.topic(topic) is not None and topic in INTERNAL_TOPICS:
        return _error(part, ErrorCode.INVALID_TOPIC_EXCEPTION)
    replica = await ctx.services.replicas.leader(topic, part.partition_index)
    if not replica.log.config.is_deleted:
        return _error(part, ErrorCode.POLICY_VIOLATION)
    replica.leader  # noqa: B018 - raises unless this broker leads
    refusal = await replica.move_log_start(part.offset)
    if isinstance(refusal, Rejected):
        return _error(part, refusal.error)
    return DeleteRecordsPartitionResult(
        partition_index=part.partition_index, low_watermark=replica.log.log_start_offset
    )


def _error(part: DeleteRecordsPartition, error: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=part.partition_index, low_watermark=UNKNOWN_OFFSET, error_code=error
    )
