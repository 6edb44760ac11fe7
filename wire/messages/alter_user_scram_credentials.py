"""AlterUserScramCredentials, API 51: version 0, flexible from 0."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import Buffer


class ScramCredentialDeletion(Struct):
    """An element of ``AlterUserScramCredentialsRequest.deletions``."""

    name: str = field(types.string, default="")
    mechanism: int = field(types.int8, default=0)


class ScramCredentialUpsertion(Struct):
    """An element of ``AlterUserScramCredentialsRequest.upsertions``."""

    name: str = field(types.string, default="")
    mechanism: int = field(types.int8, default=0)
    iterations: int = field(types.int32, default=0)
    salt: Buffer = field(types.data, default=b"")
    salted_password: Buffer = field(types.data, default=b"")


class AlterUserScramCredentialsRequest(Message, kind="request", api_key=51, versions="0", flexible="0+"):
    """Request of API 51, version 0."""

    deletions: tuple[ScramCredentialDeletion, ...] = field(types.array(ScramCredentialDeletion), default=())
    upsertions: tuple[ScramCredentialUpsertion, ...] = field(types.array(ScramCredentialUpsertion), default=())


class AlterUserScramCredentialsResult(Struct):
    """An element of ``AlterUserScramCredentialsResponse.results``."""

    user: str = field(types.string, default="")
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default="")


class AlterUserScramCredentialsResponse(Message, kind="response", api_key=51, versions="0", flexible="0+"):
    """Response of API 51, version 0."""

    throttle_time_ms: int = field(types.int32, default=0)
    results: tuple[AlterUserScramCredentialsResult, ...] = field(
        types.array(AlterUserScramCredentialsResult), default=()
    )
