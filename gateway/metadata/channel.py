"""Requests of this node to the active controller on any node, after Kafka's NodeToControllerChannelManager.

    call ─► this node is active? ──yes──► decide here
              │ no
              ├─ another is ─► its listener for controllers ─► answer
              │                      └── no answer, or NOT_CONTROLLER ─► again, until the time-out
              └─ none is known ─► wait for a change of the leadership

Each purpose has its own channel, which is a connection: a wait on one does not hold up the others.
"""

from collections.abc import Awaitable, Callable
from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Final

import trio

from odradek.gateway.env.environment import Environment
from odradek.gateway.env.signals import Signal
from odradek.gateway.errors import CoordinatorUnavailable
from odradek.gateway.metadata.active import Leadership
from odradek.gateway.peers import PeerCallError, PeerLimits, Peers
from odradek.wire.errors import ErrorCode
from odradek.wire.schema.schema import Message

if TYPE_CHECKING:
    from collections.abc import Generator

RETRY_MS: Final = 50
"""The pause after an attempt without an answer, or with NOT_CONTROLLER; a change of the leadership ends it."""


class ControllerUnreachableError(Exception):
    """No active controller has answered within the time-out. The request may or may not have been carried out."""


class ControllerChannel:
    """A channel to the active controller for one purpose; its tasks run in `nursery`.

    `decide` answers a request in this node while it is the active controller, and raises CoordinatorUnavailable while
    the metadata log is unavailable.
    """

    def __init__(
        self,
        env: Environment,
        nursery: trio.Nursery,
        leadership: Leadership,
        decide: Callable[[Message], Awaitable[Message]],
        client_id: str,
        limits: PeerLimits | None = None,
    ) -> None:
        self._env = env
        self._leadership = leadership
        self._decide = decide
        self._peers = Peers(env, nursery, client_id, limits)

    async def call(self, request: Message, version: int, timeout_ms: int, attempt_ms: int | None = None) -> Message:
        """The active controller's response. Raises ControllerUnreachableError after `timeout_ms`.

        `attempt_ms` bounds one attempt, at most `timeout_ms`. Cancellation does not undo the request.
        """
        deadline_ms = self._env.monotonic_ms() + timeout_ms
        with self._watching() as changed:
            while True:
                left_ms = deadline_ms - self._env.monotonic_ms()
                response = await self._attempt(request, version, min(left_ms, attempt_ms or timeout_ms))
                if response is not None:
                    return response
                left_ms = deadline_ms - self._env.monotonic_ms()
                if left_ms <= 0:
                    asked = type(request).__name__
                    raise ControllerUnreachableError(f"no controller answered {asked} in {timeout_ms} ms")
                await changed.wait(min(RETRY_MS, left_ms))

    async def _attempt(self, request: Message, version: int, timeout_ms: int) -> Message | None:
        """The response of the active controller, or None if the attempt must be repeated."""
        if timeout_ms <= 0:
            return None
        if self._leadership.is_active:
            return await self._here(request)
        active = self._leadership.active
        if active is None or not active.endpoint[1]:
            return None
        try:
            peer = self._peers.at(active.node_id, active.endpoint)
            response = await peer.call(request, version, timeout_ms)
        except PeerCallError:
            return None
        return None if holds_not_controller(response) else response

    async def _here(self, request: Message) -> Message | None:
        try:
            return await self._decide(request)
        except CoordinatorUnavailable:
            return None  # the cause is logged elsewhere

    @contextmanager
    def _watching(self) -> "Generator[Signal]":
        changed = Signal()
        self._leadership.changes.watch(changed)
        try:
            yield changed
        finally:
            self._leadership.changes.unwatch(changed)


def holds_not_controller(response: Message) -> bool:
    """True if a response, or a part of it, is NOT_CONTROLLER, so that the request must be sent to another node."""
    refused = ErrorCode.NOT_CONTROLLER
    if getattr(response, "error_code", 0) == refused:
        return True
    values = [getattr(response, each.name) for each in fields(response)]
    parts: list[tuple[object, ...]] = [value for value in values if isinstance(value, tuple)]
    return any(getattr(part, "error_code", 0) == refused for value in parts for part in value)
