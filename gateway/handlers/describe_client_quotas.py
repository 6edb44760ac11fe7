"""DescribeClientQuotas (API 48), versions 0 to 1: the quotas of users, clients and addresses (KIP-546)."""

from typing import Final

from odradek.coordinator.metadata.controller.client_quotas import describe_client_quotas
from odradek.gateway.server.context import RequestContext
from odradek.wire.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse

REQUEST: Final = DescribeClientQuotasRequest


async def handle(ctx: RequestContext, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    """Answer from the published image."""
    return describe_client_quotas(ctx.services.metadata.image, request)
