"""CreateDelegationToken (API 38), versions 1 to 3: refused on a listener without authentication, as in Kafka."""

from typing import Final

from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse

REQUEST: Final = CreateDelegationTokenRequest
REQUESTER_SINCE: Final = 3
NO_TIME: Final = -1
USER: Final = "User"
ANONYMOUS: Final = "ANONYMOUS"


async def handle(ctx: RequestContext, request: CreateDelegationTokenRequest) -> CreateDelegationTokenResponse:
    """Refuse. The response has the requested owner, or else the anonymous principal."""
    named = bool(request.owner_principal_name)
    has_requester = ctx.api_version >= REQUESTER_SINCE
    return CreateDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        principal_type=request.owner_principal_type or "" if named else USER,
        principal_name=request.owner_principal_name or ANONYMOUS,
        token_requester_principal_type=USER if has_requester else "",
        token_requester_principal_name=ANONYMOUS if has_requester else "",
        issue_timestamp_ms=NO_TIME,
        expiry_timestamp_ms=NO_TIME,
        max_timestamp_ms=NO_TIME,
    )
