"""AlterPartitionReassignments (API 45), versions 0 to 1: on one broker there is nowhere to move to (KIP-455)."""

from typing import Final

from odradek.coordinator.metadata.controller.reassignments import alter_partition_reassignments
from odradek.gateway.server.context import RequestContext
from odradek.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)

REQUEST: Final = AlterPartitionReassignmentsRequest


async def handle(
    ctx: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Answer from the published image."""
    return alter_partition_reassignments(ctx.services.metadata.image, request)
