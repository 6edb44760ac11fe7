"""The response header; :mod:`odradek.wire.headers` reads and writes it."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, field


class ResponseHeader(Message, kind="header", versions="0-1", flexible="1+"):
    """Versions 0 to 1."""

    correlation_id: int = field(types.int32, default=0)
