"""SaslHandshake (API 17), versions 0 to 1: on a listener without SASL there is nothing to shake hands about."""

from typing import Final

from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

REQUEST: Final = SaslHandshakeRequest


async def handle(_ctx: RequestContext, _request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Refuse, and leave the connection as it is, as Kafka does."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
