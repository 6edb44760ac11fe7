"""CreateDelegationToken, API 38: versions 1 to 3, flexible from 2."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import Buffer


class CreatableRenewers(Struct):
    """An element of ``CreateDelegationTokenRequest.renewers``."""

    principal_type: str = field(types.string, default="")
    principal_name: str = field(types.string, default="")


class CreateDelegationTokenRequest(Message, kind="request", api_key=38, versions="1-3", flexible="2+"):
    """Request of API 38, versions 1 to 3."""

    owner_principal_type: str | None = field(types.string, versions="3+", nullable="3+", default="")
    owner_principal_name: str | None = field(types.string, versions="3+", nullable="3+", default="")
    renewers: tuple[CreatableRenewers, ...] = field(types.array(CreatableRenewers), default=())
    max_lifetime_ms: int = field(types.int64, default=0)


class CreateDelegationTokenResponse(Message, kind="response", api_key=38, versions="1-3", flexible="2+"):
    """Response of API 38, versions 1 to 3."""

    error_code: int = field(types.int16, default=0)
    principal_type: str = field(types.string, default="")
    principal_name: str = field(types.string, default="")
    token_requester_principal_type: str = field(types.string, versions="3+", default="")
    token_requester_principal_name: str = field(types.string, versions="3+", default="")
    issue_timestamp_ms: int = field(types.int64, default=0)
    expiry_timestamp_ms: int = field(types.int64, default=0)
    max_timestamp_ms: int = field(types.int64, default=0)
    token_id: str = field(types.string, default="")
    hmac: Buffer = field(types.data, default=b"")
    throttle_time_ms: int = field(types.int32, default=0)
