"""SaslHandshake (API 17), versions 0 to 1: refused, since no listener uses SASL."""

from typing import Final

from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

REQUEST: Final = SaslHandshakeRequest


async def handle(_ctx: RequestContext, _request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Refuse, and keep the connection open, as in Kafka."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
