"""ListPartitionReassignments (API 46), version 0: the reassignments in progress (KIP-455)."""

from typing import Final

from odradek.coordinator.metadata.controller.reassignments import list_partition_reassignments
from odradek.gateway.server.context import RequestContext
from odradek.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

REQUEST: Final = ListPartitionReassignmentsRequest


async def handle(ctx: RequestContext, request: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
    """Answer from the published image."""
    return list_partition_reassignments(ctx.services.metadata.image, request)
