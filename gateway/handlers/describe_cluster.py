"""DescribeCluster (API 60), versions 0 to 2: the cluster's id, controller and brokers (KIP-700).

Version 2 can ask for fenced brokers too (KIP-1073).
"""

from typing import Final

from odradek.gateway.handling.authorized_operations import CLUSTER_OPERATIONS
from odradek.gateway.handling.brokers import reachable, some_broker
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

REQUEST: Final = DescribeClusterRequest
BROKERS: Final = 1
NOT_ASKED: Final = -(2**31)


async def handle(ctx: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Describe the brokers; controllers are not reached through a broker's listener."""
    if request.endpoint_type != BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of type BROKER, but the type asked for is "
            f"{request.endpoint_type}.",
            endpoint_type=request.endpoint_type,
        )
    image, listener = ctx.services.metadata.image, ctx.session.listener
    brokers = reachable(image, listener, fenced=request.include_fenced_brokers)
    return DescribeClusterResponse(
        cluster_id=ctx.services.cluster_id,
        controller_id=some_broker(reachable(image, listener), ctx.services.env.random.choice),
        brokers=tuple(
            [
                DescribeClusterBroker(
                    broker_id=broker.id, host=at.host, port=at.port, rack=broker.rack, is_fenced=broker.fenced
                )
                for broker, at in brokers.values()
            ]
        ),
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )
