"""AlterUserScramCredentials (API 51), version 0: set and remove users' SCRAM passwords (KIP-554)."""

from typing import Final

from gateway.context import RequestContext
from gateway.runtime.metadata import decided
from wire.errors import ErrorCode
from wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

REQUEST: Final = AlterUserScramCredentialsRequest


async def handle(ctx: RequestContext, request: AlterUserScramCredentialsRequest) -> AlterUserScramCredentialsResponse:
    """Let the metadata shard decide; the answer goes out once the change is on disk."""

    def refused(error: ErrorCode) -> AlterUserScramCredentialsResponse:
        names = dict.fromkeys(each.name for each in (*request.deletions, *request.upsertions))
        results = [
            AlterUserScramCredentialsResult(user=name, error_code=error, error_message=error.message) for name in names
        ]
        return AlterUserScramCredentialsResponse(results=tuple(results))

    return await decided(ctx.services.metadata.alter_user_scram_credentials(request), refused)
