"""AlterPartition (API 56), versions 2 to 3: a leader proposes in-sync replicas (KIP-497, KIP-903)."""

from typing import Final

from odradek.coordinator.metadata.controller.alter_partition import alter_partition
from odradek.gateway.handling.metadata import decided
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

REQUEST: Final = AlterPartitionRequest


async def handle(ctx: RequestContext, request: AlterPartitionRequest) -> AlterPartitionResponse:
    """Decide in the metadata shard, if this node is the active controller; the response follows the commit."""

    def refused(error: ErrorCode) -> AlterPartitionResponse:
        return AlterPartitionResponse(error_code=error)

    return await decided(ctx, alter_partition, request, refused)
