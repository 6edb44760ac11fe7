"""Converts a coordinator's failure to an error code, for the APIs that a coordinator decides."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from odradek.gateway.env.completion import Completion, completed
from odradek.gateway.errors import CoordinatorUnavailable, TooLargeError
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode

R = TypeVar("R")


async def answer_of_coordinator(
    answer: Awaitable[R], refused: Callable[[ErrorCode], R], *, too_large: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR
) -> R:
    """The coordinator's response, or the result of `refused` for the error code while it is unavailable.

    `too_large` is the code of an operation whose records do not fit into one batch.
    """
    try:
        return await answer
    except TooLargeError:
        return refused(too_large)
    except CoordinatorUnavailable as unavailable:
        return refused(unavailable.error)


async def deferred_answer(
    ctx: RequestContext,
    begun: Awaitable[tuple[Completion[object], Callable[[], None]]],
    reply_type: type[R],
    refused: Callable[[ErrorCode], R],
) -> Completion[R]:
    """The reply of an operation that `Coordinator.begin` began and that may take long.

    `refused` makes the reply for the error code while the coordinator is unavailable. When the response has been sent,
    or can no longer be sent, a reply that is still pending is dropped; the operation itself remains in effect.
    """
    try:
        reply, abandon = await begun
    except CoordinatorUnavailable as unavailable:
        return completed(refused(unavailable.error))
    ctx.on_sent.append(abandon)

    def answer(done: Completion[object]) -> R:
        try:
            value = done.result()
        except CoordinatorUnavailable as unavailable:
            return refused(unavailable.error)
        assert isinstance(value, reply_type)
        return value

    return reply.then(answer)


def fencing_error(error: int, api_version: int, fenced_since: int) -> ErrorCode:
    """An error of the transaction coordinator; INVALID_PRODUCER_EPOCH for versions that do not have PRODUCER_FENCED."""
    if error == ErrorCode.PRODUCER_FENCED and api_version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return ErrorCode(error)
