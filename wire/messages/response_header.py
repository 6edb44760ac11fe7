"""The response header; :mod:`wire.headers` reads and writes it."""

from __future__ import annotations

from wire import types
from wire.schema import Message, field


class ResponseHeader(Message, kind="header", versions="0-1", flexible="1+"):
    """Versions 0 to 1."""

    correlation_id: int = field(types.int32, default=0)
