"""SaslHandshake, API 17: versions 0 to 1."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, field


class SaslHandshakeRequest(Message, kind="request", api_key=17, versions="0-1"):
    """Request of API 17, versions 0 to 1."""

    mechanism: str = field(types.string, default="")


class SaslHandshakeResponse(Message, kind="response", api_key=17, versions="0-1"):
    """Response of API 17, versions 0 to 1."""

    error_code: int = field(types.int16, default=0)
    mechanisms: tuple[str, ...] = field(types.array(types.string), default=())
