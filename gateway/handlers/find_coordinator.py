"""FindCoordinator (API 10), versions 0 to 6: finds the coordinator of a group or a transactional id.

From version 4 on of several at once (KIP-699).

Gaps: share groups have no coordinator yet (COORDINATOR_NOT_AVAILABLE).
"""

from typing import Final

from odradek.gateway.coordinators.groups import GroupCoordinator
from odradek.gateway.coordinators.transactions import TransactionCoordinator
from odradek.gateway.handling.brokers import reachable
from odradek.gateway.handling.coordinators import answer_of_coordinator
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

REQUEST: Final = FindCoordinatorRequest
BATCHED_SINCE: Final = 4
GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
NO_NODE: Final = -1

_Coordinators = GroupCoordinator | TransactionCoordinator


async def handle(ctx: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """Find the coordinator of every key; the internal topic is created for the first request."""
    if ctx.api_version >= BATCHED_SINCE:
        found = [await _find(ctx, request.key_type, key) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=tuple(found))
    one = await _find(ctx, request.key_type, request.key)
    message = one.error_message or ErrorCode.NONE.name  # as in Kafka in these versions
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=message if ctx.api_version > 0 else None,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


async def _find(ctx: RequestContext, key_type: int, key: str) -> Coordinator:
    await ctx.take_turns()
    if key_type not in (GROUP, TRANSACTION, SHARE):
        return _none(key, ErrorCode.INVALID_REQUEST)
    if key_type == SHARE:
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    coordinator = ctx.services.groups if key_type == GROUP else ctx.services.transactions
    found = _leader(ctx, coordinator, key)
    return await answer_of_coordinator(found, lambda _: _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE))


async def _leader(ctx: RequestContext, coordinator: _Coordinators, key: str) -> Coordinator:
    """The leader of the key's partition, with its address for the client. Raises CoordinatorUnavailable."""
    await coordinator.ensure_topic()
    image = ctx.services.metadata.image
    partition = image.partition(coordinator.topic, coordinator.partition(key))
    found = None if partition is None else reachable(image, ctx.session.listener).get(partition.leader)
    if found is None:
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return Coordinator(key=key, node_id=found.broker.id, host=found.endpoint.host, port=found.endpoint.port)


def _none(key: str, error: ErrorCode) -> Coordinator:
    return Coordinator(key=key, node_id=NO_NODE, port=NO_NODE, error_code=error, error_message=error.message)
