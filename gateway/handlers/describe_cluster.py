"""DescribeCluster (API 60), versions 0 to 2: the cluster's id and its brokers (KIP-700), or its controllers (KIP-919).

Version 2 can request fenced brokers too (KIP-1073).
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
CONTROLLERS: Final = 2
ENDPOINT_TYPES_SINCE: Final = 1
NOT_ASKED: Final = -(2**31)


async def handle(ctx: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Describe the brokers on their listeners, and the controllers on theirs (KIP-919)."""
    served, name = (CONTROLLERS, "CONTROLLER") if ctx.session.is_controller else (BROKERS, "BROKER")
    asked = request.endpoint_type
    if asked not in (BROKERS, CONTROLLERS):
        return _refused(ctx, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {asked}")
    if asked != served:
        message = f"The request was sent to an endpoint of type {name}, but the type asked for is {asked}."
        return _refused(ctx, ErrorCode.MISMATCHED_ENDPOINT_TYPE, message)
    return _controllers(ctx) if ctx.session.is_controller else _brokers(ctx, request)


def _refused(ctx: RequestContext, error: ErrorCode, message: str) -> DescribeClusterResponse:
    """The error; INVALID_REQUEST in version 0, which has no endpoint types."""
    code = error if ctx.api_version >= ENDPOINT_TYPES_SINCE else ErrorCode.INVALID_REQUEST
    return DescribeClusterResponse(error_code=code, error_message=message)


def _controllers(ctx: RequestContext) -> DescribeClusterResponse:
    listener = ctx.session.listener
    listed = [
        (node, endpoints.get(listener) or next(iter(endpoints.values())))
        for node, endpoints in sorted(ctx.services.quorum.known_endpoints.of_voters.items())
    ]
    return DescribeClusterResponse(
        cluster_id=ctx.services.cluster_id,
        controller_id=ctx.services.quorum.core.leader_id,
        endpoint_type=CONTROLLERS,
        brokers=tuple([DescribeClusterBroker(broker_id=node, host=host, port=port) for node, (host, port) in listed]),
    )


def _brokers(ctx: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
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
