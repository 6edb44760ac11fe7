"""DescribeUserScramCredentials, API 50: version 0, flexible from 0."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field


class UserName(Struct):
    """An element of ``DescribeUserScramCredentialsRequest.users``."""

    name: str = field(types.string, default="")


class DescribeUserScramCredentialsRequest(Message, kind="request", api_key=50, versions="0", flexible="0+"):
    """Request of API 50, version 0."""

    users: tuple[UserName, ...] | None = field(types.array(UserName), nullable="0+", default=())


class CredentialInfo(Struct):
    """An element of ``DescribeUserScramCredentialsResult.credential_infos``."""

    mechanism: int = field(types.int8, default=0)
    iterations: int = field(types.int32, default=0)


class DescribeUserScramCredentialsResult(Struct):
    """An element of ``DescribeUserScramCredentialsResponse.results``."""

    user: str = field(types.string, default="")
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default="")
    credential_infos: tuple[CredentialInfo, ...] = field(types.array(CredentialInfo), default=())


class DescribeUserScramCredentialsResponse(Message, kind="response", api_key=50, versions="0", flexible="0+"):
    """Response of API 50, version 0."""

    throttle_time_ms: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default="")
    results: tuple[DescribeUserScramCredentialsResult, ...] = field(
        types.array(DescribeUserScramCredentialsResult), default=()
    )
