"""Errors of the APIs that a coordinator decides; this is the one place where its failure becomes an answer's code."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from odradek.gateway.errors import CoordinatorError
from odradek.wire.errors import ErrorCode

R = TypeVar("R")


async def answer_of_coordinator(answer: Awaitable[R], refused: Callable[[ErrorCode], R]) -> R:
    """The coordinator's answer, or what `refused` makes of the error code while it has none."""
    try:
        return await answer
    except CoordinatorError as unavailable:
        return refused(unavailable.error)
