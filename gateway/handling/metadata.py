"""Converts the controller's failure to an error code, for the APIs that change metadata."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from odradek.coordinator.metadata.controller.shard import Operation
from odradek.gateway.errors import CoordinatorUnavailable, TooLargeError
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode

Q = TypeVar("Q")
R = TypeVar("R")


async def answer_of_controller(answer: Awaitable[R], refused: Callable[[ErrorCode], R]) -> R:
    """The controller's response, or the result of `refused` for the error code while the metadata log is unavailable.

    A failed disk is KAFKA_STORAGE_ERROR. While the log is being loaded, and on a node that is not the active
    controller, the code is NOT_CONTROLLER, on which clients retry.
    """
    try:
        return await answer
    except TooLargeError:
        return refused(ErrorCode.UNKNOWN_SERVER_ERROR)
    except CoordinatorUnavailable as unavailable:
        is_offline = unavailable.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        return refused(ErrorCode.KAFKA_STORAGE_ERROR if is_offline else ErrorCode.NOT_CONTROLLER)


async def decided(ctx: RequestContext, operation: Operation[Q, R], request: Q, refused: Callable[[ErrorCode], R]) -> R:
    """The controller's response to another node's request; NOT_CONTROLLER if this node is not the active controller."""
    if not ctx.services.leadership.is_active:
        return refused(ErrorCode.NOT_CONTROLLER)
    return await answer_of_controller(ctx.services.controller.decide(operation, request), refused)


async def decided_where_needed(
    ctx: RequestContext, operation: Operation[Q, R], request: Q, refused: Callable[[ErrorCode], R]
) -> R:
    """The response to a request that may be about all partitions but rarely changes anything.

    A worker thread first evaluates it on the published image, which has everything that a client can know. The
    controller decides only if that finds a change. NOT_CONTROLLER if this node is not the active controller, since its
    image may be out of date.
    """
    if not ctx.services.leadership.is_active:
        return refused(ErrorCode.NOT_CONTROLLER)
    context = ctx.services.decision_context()
    records, response = await ctx.services.env.run_blocking(lambda: operation(context, request))
    if not records:
        return response
    return await answer_of_controller(ctx.services.controller.decide(operation, request), refused)
