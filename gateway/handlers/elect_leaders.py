"""ElectLeaders (API 43), versions 0 to 2: elect preferred leaders, or unclean ones if there is none (KIP-460)."""

from typing import Final

from odradek.coordinator.metadata.controller.elect_leaders import elect_leaders
from odradek.gateway.handling.metadata import decided_where_needed
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

REQUEST: Final = ElectLeadersRequest
TOP_LEVEL_ERROR_SINCE: Final = 1


async def handle(ctx: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Answer from the published image, unless a leader must be elected."""

    def refused(error: ErrorCode) -> ElectLeadersResponse:
        return _refused(ctx.api_version, request, error)

    response = await decided_where_needed(ctx, elect_leaders, request, refused)
    ctx.will_answer(sum([len(topic.partition_result) for topic in response.replica_election_results]))
    return response


def _refused(api_version: int, request: ElectLeadersRequest, error: ErrorCode) -> ElectLeadersResponse:
    """The error for the request, from version 1 on, and in every version for each partition that it names."""
    results = [
        ReplicaElectionResult(
            topic=topic.topic,
            partition_result=tuple(
                [
                    PartitionResult(partition_id=index, error_code=error, error_message=error.message)
                    for index in topic.partitions
                ]
            ),
        )
        for topic in request.topic_partitions or ()
    ]
    top_level = error if api_version >= TOP_LEVEL_ERROR_SINCE else ErrorCode.NONE
    return ElectLeadersResponse(error_code=top_level, replica_election_results=tuple(results))
