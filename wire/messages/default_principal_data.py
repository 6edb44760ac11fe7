"""A principal as Envelope requests and delegation tokens carry it."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, field


class DefaultPrincipalData(Message, kind="data", versions="0", flexible="0+"):
    """Version 0."""

    type: str = field(types.string, default="")
    name: str = field(types.string, default="")
    token_authenticated: bool = field(types.boolean, default=False)
