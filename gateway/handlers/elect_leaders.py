"""ElectLeaders (API 43), versions 0 to 2: on one broker every partition has the leader it would get (KIP-460)."""

from typing import Final

from odradek.coordinator.metadata.controller.elect_leaders import elect_leaders
from odradek.gateway.server.context import RequestContext
from odradek.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

REQUEST: Final = ElectLeadersRequest


async def handle(ctx: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Answer from the published image, in a thread, for it may be about all partitions."""
    image = ctx.services.metadata.image
    response = await ctx.services.env.run_blocking(lambda: elect_leaders(image, request))
    ctx.will_answer(sum([len(topic.partition_result) for topic in response.replica_election_results]))
    return response
