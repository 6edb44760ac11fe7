"""DescribeDelegationToken, API 41: versions 1 to 3, flexible from 2."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import Buffer


class DescribeDelegationTokenOwner(Struct):
    """An element of ``DescribeDelegationTokenRequest.owners``."""

    principal_type: str = field(types.string, default="")
    principal_name: str = field(types.string, default="")


class DescribeDelegationTokenRequest(Message, kind="request", api_key=41, versions="1-3", flexible="2+"):
    """Request of API 41, versions 1 to 3."""

    owners: tuple[DescribeDelegationTokenOwner, ...] | None = field(
        types.array(DescribeDelegationTokenOwner), nullable="0+", default=()
    )


class DescribedDelegationTokenRenewer(Struct):
    """An element of ``DescribedDelegationToken.renewers``."""

    principal_type: str = field(types.string, default="")
    principal_name: str = field(types.string, default="")


class DescribedDelegationToken(Struct):
    """An element of ``DescribeDelegationTokenResponse.tokens``."""

    principal_type: str = field(types.string, default="")
    principal_name: str = field(types.string, default="")
    token_requester_principal_type: str = field(types.string, versions="3+", default="")
    token_requester_principal_name: str = field(types.string, versions="3+", default="")
    issue_timestamp: int = field(types.int64, default=0)
    expiry_timestamp: int = field(types.int64, default=0)
    max_timestamp: int = field(types.int64, default=0)
    token_id: str = field(types.string, default="")
    hmac: Buffer = field(types.data, default=b"")
    renewers: tuple[DescribedDelegationTokenRenewer, ...] = field(
        types.array(DescribedDelegationTokenRenewer), default=()
    )


class DescribeDelegationTokenResponse(Message, kind="response", api_key=41, versions="1-3", flexible="2+"):
    """Response of API 41, versions 1 to 3."""

    error_code: int = field(types.int16, default=0)
    tokens: tuple[DescribedDelegationToken, ...] = field(types.array(DescribedDelegationToken), default=())
    throttle_time_ms: int = field(types.int32, default=0)
