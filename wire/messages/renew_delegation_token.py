"""RenewDelegationToken, API 39: versions 1 to 2, flexible from 2."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, field
from odradek.wire.schema.types import Buffer


class RenewDelegationTokenRequest(Message, kind="request", api_key=39, versions="1-2", flexible="2+"):
    """Request of API 39, versions 1 to 2."""

    hmac: Buffer = field(types.data, default=b"")
    renew_period_ms: int = field(types.int64, default=0)


class RenewDelegationTokenResponse(Message, kind="response", api_key=39, versions="1-2", flexible="2+"):
    """Response of API 39, versions 1 to 2."""

    error_code: int = field(types.int16, default=0)
    expiry_timestamp_ms: int = field(types.int64, default=0)
    throttle_time_ms: int = field(types.int32, default=0)
