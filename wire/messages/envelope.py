"""Envelope, API 58: version 0, flexible from 0."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, field
from odradek.wire.schema.types import Buffer


class EnvelopeRequest(Message, kind="request", api_key=58, versions="0", flexible="0+"):
    """Request of API 58, version 0."""

    request_data: Buffer = field(types.data, default=b"")
    request_principal: Buffer | None = field(types.data, nullable="0+", default=b"")
    client_host_address: Buffer = field(types.data, default=b"")


class EnvelopeResponse(Message, kind="response", api_key=58, versions="0", flexible="0+"):
    """Response of API 58, version 0."""

    response_data: Buffer | None = field(types.data, nullable="0+", default=None)
    error_code: int = field(types.int16, default=0)
