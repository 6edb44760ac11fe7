"""DescribeDelegationToken (API 41), versions 1 to 3: refused on a listener without authentication, as in Kafka."""

from typing import Final

from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)

REQUEST: Final = DescribeDelegationTokenRequest


async def handle(_ctx: RequestContext, _request: DescribeDelegationTokenRequest) -> DescribeDelegationTokenResponse:
    """Refuse."""
    return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
