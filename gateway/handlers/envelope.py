"""Envelope (API 58), version 0: a broker forwards a client's request (KIP-590).

The request inside is answered as if the client had sent it to the active controller itself; the result is the response
with its header, in the version of the request.
"""

import logging
from ipaddress import ip_address
from typing import Final

from odradek.gateway.errors import PeerError
from odradek.gateway.metadata.channel import holds_not_controller
from odradek.gateway.server.context import RequestContext
from odradek.gateway.server.dispatch import FORWARDED, Dispatcher
from odradek.gateway.server.session import Session
from odradek.wire.errors import ErrorCode
from odradek.wire.frames import LENGTH_BYTES
from odradek.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from odradek.wire.schema.codec import as_view

log = logging.getLogger(__name__)

REQUEST: Final = EnvelopeRequest


async def handle(ctx: RequestContext, request: EnvelopeRequest) -> EnvelopeResponse:
    """Answer the request inside, if this node is the active controller throughout."""
    leadership = ctx.services.leadership
    if not leadership.is_active:
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    try:
        host = str(ip_address(bytes(request.client_host_address)))
        session = Session(ctx.session.peer, host, ctx.session.listener, ctx.session.is_controller)
        inner, asked, route = Dispatcher(ctx.services).open(as_view(request.request_data), session)
    except (ValueError, PeerError):
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
    if inner.api_key not in FORWARDED:
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
    try:
        response = await route.handle(inner, asked)
        if holds_not_controller(response):
            return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
        framed = b"".join(inner.encode(response))
    except Exception:
        log.exception("internal error api=%s forwarded_by=%s", inner.api_key.name, ctx.session.peer)
        return EnvelopeResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    return EnvelopeResponse(response_data=memoryview(framed)[LENGTH_BYTES:])
