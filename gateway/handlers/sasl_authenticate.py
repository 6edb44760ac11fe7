"""SaslAuthenticate (API 36), versions 0 to 2: refused, since no listener uses SASL."""

from typing import Final

from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

REQUEST: Final = SaslAuthenticateRequest


async def handle(_ctx: RequestContext, _request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    """Refuse, and keep the connection open, as in Kafka."""
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message="This listener has no authentication."
    )
