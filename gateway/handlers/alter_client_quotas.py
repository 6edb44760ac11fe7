"""AlterClientQuotas (API 49), versions 0 to 1: set and remove quotas of users, clients and addresses (KIP-546)."""

from typing import Final

from gateway.context import RequestContext
from gateway.runtime.metadata import decided
from wire.errors import ErrorCode
from wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
)

REQUEST: Final = AlterClientQuotasRequest


async def handle(ctx: RequestContext, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    """Let the metadata shard decide; the answer goes out once the change is on disk."""

    def refused(error: ErrorCode) -> AlterClientQuotasResponse:
        entries = [
            AlterClientQuotasResponseEntryData(error_code=error, error_message=error.message, entity=entry.entity)
            for entry in request.entries
        ]
        return AlterClientQuotasResponse(entries=tuple(entries))

    return await decided(ctx.services.metadata.alter_client_quotas(request), refused)
