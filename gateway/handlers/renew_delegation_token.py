"""RenewDelegationToken (API 39), versions 1 to 2: refused on a listener without authentication, as in Kafka."""

from typing import Final

from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

REQUEST: Final = RenewDelegationTokenRequest
NO_TIME: Final = -1


async def handle(_ctx: RequestContext, _request: RenewDelegationTokenRequest) -> RenewDelegationTokenResponse:
    """Refuse."""
    return RenewDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=NO_TIME
    )
