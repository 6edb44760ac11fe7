"""ElectLeaders (API 43), versions 0 to 2: elect preferred leaders, or unclean ones if there is none (KIP-460)."""

from typing import Final

from odradek.coordinator.metadata.controller.elect_leaders import elect_leaders
from odradek.gateway.handling.metadata import decided_where_needed
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

REQUEST: Final = ElectLeadersRequest


async def handle(ctx: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Answer from the published image, unless a leader must be elected."""

    def refused(error: ErrorCode) -> ElectLeadersResponse:
        return ElectLeadersResponse(error_code=error)

    response = await decided_where_needed(ctx, elect_leaders, request, refused)
    ctx.will_answer(sum([len(topic.partition_result) for topic in response.replica_election_results]))
    return response
