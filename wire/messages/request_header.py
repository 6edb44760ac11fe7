"""The request header; :mod:`odradek.wire.headers` reads and writes it."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, field


class RequestHeader(Message, kind="header", versions="1-2", flexible="2+"):
    """Versions 1 to 2."""

    request_api_key: int = field(types.int16, default=0)
    request_api_version: int = field(types.int16, default=0)
    correlation_id: int = field(types.int32, default=0)
    client_id: str | None = field(types.string, versions="1+", nullable="1+", flexible="none", default="")
