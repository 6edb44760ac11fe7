"""SaslAuthenticate, API 36: versions 0 to 2, flexible from 2."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, field
from odradek.wire.schema.types import Buffer


class SaslAuthenticateRequest(Message, kind="request", api_key=36, versions="0-2", flexible="2+"):
    """Request of API 36, versions 0 to 2."""

    auth_bytes: Buffer = field(types.data, default=b"")


class SaslAuthenticateResponse(Message, kind="response", api_key=36, versions="0-2", flexible="2+"):
    """Response of API 36, versions 0 to 2."""

    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default="")
    auth_bytes: Buffer = field(types.data, default=b"")
    session_lifetime_ms: int = field(types.int64, versions="1+", ignorable=True, default=0)
