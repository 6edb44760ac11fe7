"""Errors of the APIs that change metadata; this is the one place where the controller's failure becomes a code."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from odradek.gateway.errors import CoordinatorUnavailable, TooLargeError
from odradek.wire.errors import ErrorCode

R = TypeVar("R")


async def answer_of_controller(answer: Awaitable[R], refused: Callable[[ErrorCode], R]) -> R:
    """The controller's answer, or what `refused` makes of the error code while the metadata log does not serve.

    A failed disk is KAFKA_STORAGE_ERROR. At NOT_CONTROLLER, while the log is loaded, clients repeat the request.
    """
    try:
        return await answer
    except TooLargeError:
        return refused(ErrorCode.UNKNOWN_SERVER_ERROR)
    except CoordinatorUnavailable as unavailable:
        is_offline = unavailable.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        return refused(ErrorCode.KAFKA_STORAGE_ERROR if is_offline else ErrorCode.NOT_CONTROLLER)
