"""AlterPartitionReassignments (API 45), versions 0 to 1: partitions get other replicas (KIP-455)."""

from typing import Final

from odradek.coordinator.metadata.controller.reassignments import alter_partition_reassignments
from odradek.gateway.handling.metadata import decided_where_needed
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)

REQUEST: Final = AlterPartitionReassignmentsRequest


async def handle(
    ctx: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Answer from the published image, unless an assignment changes."""

    def refused(error: ErrorCode) -> AlterPartitionReassignmentsResponse:
        return AlterPartitionReassignmentsResponse(error_code=error, error_message=error.message)

    return await decided_where_needed(ctx, alter_partition_reassignments, request, refused)
