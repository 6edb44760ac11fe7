"""ElectLeaders (API 43), versions 0 to 2: on one broker every partition has the leader it would get (KIP-460)."""

from typing import Final

from coordinator.metadata.elect_leaders import elect_leaders
from gateway.context import RequestContext
from wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

REQUEST: Final = ElectLeadersRequest


async def handle(ctx: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Answer from the published image."""
    return elect_leaders(ctx.services.metadata.image, request)
