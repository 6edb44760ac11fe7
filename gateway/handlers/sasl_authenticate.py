"""SaslAuthenticate (API 36), versions 0 to 2: on a listener without SASL there is nothing to prove."""

from typing import Final

from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

REQUEST: Final = SaslAuthenticateRequest


async def handle(_ctx: RequestContext, _request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    """Refuse, and leave the connection as it is, as Kafka does."""
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message="This listener has no authentication."
    )
