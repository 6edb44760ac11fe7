"""DescribeCluster (API 60), versions 0 to 2: the cluster's id, controller and brokers (KIP-700).

Version 2 can ask for fenced brokers too (KIP-1073); there are none beside the one that answers.
"""

from typing import Final

from odradek.gateway.handling.authorized_operations import CLUSTER_OPERATIONS
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
    host, port = ctx.services.advertised[ctx.session.listener]
    node_id, rack = ctx.services.config.node_id, ctx.services.config.rack
    return DescribeClusterResponse(
        cluster_id=ctx.services.cluster_id,
        controller_id=node_id,
        brokers=(DescribeClusterBroker(broker_id=node_id, host=host, port=port, rack=rack),),
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )
