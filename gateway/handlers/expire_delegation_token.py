"""ExpireDelegationToken (API 40), versions 1 to 2: refused on a listener without authentication, as in Kafka."""

from typing import Final

from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse

REQUEST: Final = ExpireDelegationTokenRequest
NO_TIME: Final = -1


async def handle(_ctx: RequestContext, _request: ExpireDelegationTokenRequest) -> ExpireDelegationTokenResponse:
    """Refuse."""
    return ExpireDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=NO_TIME
    )
