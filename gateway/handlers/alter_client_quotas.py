"""AlterClientQuotas (API 49), versions 0 to 1: set and remove quotas of users, clients and addresses (KIP-546)."""

from dataclasses import replace
from functools import partial
from typing import Final

from odradek.coordinator.metadata.controller.client_quotas import alter_client_quotas
from odradek.gateway.handling.metadata import answer_of_controller
from odradek.gateway.metadata.parts import in_parts
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
)

REQUEST: Final = AlterClientQuotasRequest


async def handle(ctx: RequestContext, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    """Decide in the metadata shard, in parts; the response is sent once the changes are committed."""
    results: list[AlterClientQuotasResponseEntryData] = []
    entities = [frozenset((each.entity_type, each.entity_name) for each in entry.entity) for entry in request.entries]
    for entries in in_parts(request.entries, entities):
        part = replace(request, entries=tuple(entries))
        answer = await answer_of_controller(
            ctx.services.controller.decide(alter_client_quotas, part), partial(_refused, part)
        )
        results += answer.entries
    ctx.will_answer(len(results))
    return AlterClientQuotasResponse(entries=tuple(results))


def _refused(request: AlterClientQuotasRequest, error: ErrorCode) -> AlterClientQuotasResponse:
    entries = [
        AlterClientQuotasResponseEntryData(error_code=error, error_message=error.message, entity=entry.entity)
        for entry in request.entries
    ]
    return AlterClientQuotasResponse(entries=tuple(entries))
