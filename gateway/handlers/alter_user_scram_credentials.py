"""AlterUserScramCredentials (API 51), version 0: set and remove users' SCRAM passwords (KIP-554)."""

from dataclasses import replace
from functools import partial
from typing import Final

from odradek.coordinator.metadata.controller.scram import alter_user_scram_credentials
from odradek.gateway.handling.metadata import answer_of_controller
from odradek.gateway.metadata.parts import in_parts
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

REQUEST: Final = AlterUserScramCredentialsRequest


async def handle(ctx: RequestContext, request: AlterUserScramCredentialsRequest) -> AlterUserScramCredentialsResponse:
    """Decide in the metadata shard, in parts; the response is sent once the changes are committed."""
    changes = (*request.deletions, *request.upsertions)
    results: list[AlterUserScramCredentialsResult] = []
    for changes_of_part in in_parts(changes, [change.name for change in changes]):
        part = replace(
            request,
            deletions=tuple(each for each in changes_of_part if isinstance(each, ScramCredentialDeletion)),
            upsertions=tuple(each for each in changes_of_part if isinstance(each, ScramCredentialUpsertion)),
        )
        answer = await answer_of_controller(
            ctx.services.controller.decide(alter_user_scram_credentials, part), partial(_refused, part)
        )
        results += answer.results
    ctx.will_answer(len(results))
    return AlterUserScramCredentialsResponse(results=tuple(results))


def _refused(request: AlterUserScramCredentialsRequest, error: ErrorCode) -> AlterUserScramCredentialsResponse:
    names = dict.fromkeys(each.name for each in (*request.deletions, *request.upsertions))
    results = [
        AlterUserScramCredentialsResult(user=name, error_code=error, error_message=error.message) for name in names
    ]
    return AlterUserScramCredentialsResponse(results=tuple(results))
