"""AlterPartitionReassignments (API 45), versions 0 to 1: assign other replicas to partitions (KIP-455)."""

from dataclasses import replace
from typing import Final

from odradek.coordinator.metadata.controller.reassignments import alter_partition_reassignments
from odradek.gateway.handling.metadata import decided_where_needed
from odradek.gateway.metadata.parts import in_parts
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignableTopicResponse,
)

REQUEST: Final = AlterPartitionReassignmentsRequest


async def handle(
    ctx: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Answer from the published image, unless an assignment changes; many partitions are handled in parts.

    If a part is refused, the parts before it remain in force: a client that repeats the request finds them done.
    """
    names = [topic.name for topic in request.topics]
    responses: list[ReassignableTopicResponse] = []
    for topics in in_parts(request.topics, names, lambda topic: len(topic.partitions)):
        part = replace(request, topics=tuple(topics))
        answer = await decided_where_needed(ctx, alter_partition_reassignments, part, _refused)
        if answer.error_code:
            return answer
        responses += answer.responses
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=tuple(responses),
    )


def _refused(error: ErrorCode) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(error_code=error, error_message=error.message)
