"""A caller that a shard owes a reply: a task that waits for it, or a connection that is called back.

To be called back is cheaper: no task gets a turn for the reply. When a large group's generation begins, a hundred
replies leave in one go, while the members already do what comes next.
"""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

import trio

from odradek.coordinator.contract import Token
from odradek.wire.errors import ErrorCode

R = TypeVar("R")

NOBODY: Final = Token(0)
"""No shard gives this token away."""


class CoordinatorError(Exception):
    """The shard cannot answer now; `error` is what Kafka says then."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error.name)
        self.error = error


class TooLargeError(CoordinatorError):
    """What the operation would write is more than the partition takes in one batch; nothing of it has happened."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR)


class Waiter:
    """The place that the reply to `token` comes to. At most one waits there, in one of the two ways."""

    __slots__ = ("_callback", "_error", "_value", "is_ready", "token")

    def __init__(self, token: Token) -> None:
        self.token = token
        self.is_ready = False
        self._value: object = None
        self._error: ErrorCode | None = None
        self._callback: Callable[[], None] | None = None

    def settle(self, value: object, error: ErrorCode | None = None) -> None:
        """Give the reply, or the error that there is instead; once."""
        self.is_ready, self._value, self._error = True, value, error
        if self._callback is not None:
            self._callback()

    def on_ready(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the reply has come; not when it is here already. It must not raise."""
        self._callback = callback

    async def wait(self) -> object:
        """Wait for the reply and give it. Raises CoordinatorError."""
        if not self.is_ready:
            event = trio.Event()
            self.on_ready(event.set)
            await event.wait()
        return self.result()

    def result(self) -> object:
        """The reply that has come. Raises CoordinatorError."""
        if self._error is ErrorCode.MESSAGE_TOO_LARGE:
            raise TooLargeError
        if self._error is not None:
            raise CoordinatorError(self._error)
        return self._value


def refused(error: CoordinatorError) -> Waiter:
    """What there is to wait for when the shard does not answer: nothing."""
    waiter = Waiter(NOBODY)
    waiter.settle(None, error.error)
    return waiter


class PendingReply(Generic[R]):
    """A shard's reply as the `PendingResponse` of a handler; `refusal` makes a response of an error instead.

    `abandon` must be called in the end: a reply that has not come by then finds nobody.
    """

    __slots__ = ("_refusal", "_reply_type", "_waiter", "abandon")

    def __init__(
        self, waiter: Waiter, reply_type: type[R], refusal: Callable[[ErrorCode], R], abandon: Callable[[], None]
    ) -> None:
        self._waiter = waiter
        self._reply_type = reply_type
        self._refusal = refusal
        self.abandon = abandon

    @property
    def is_ready(self) -> bool:
        """See `PendingResponse.is_ready`."""
        return self._waiter.is_ready

    def on_ready(self, callback: Callable[[], None]) -> None:
        """See `PendingResponse.on_ready`."""
        self._waiter.on_ready(callback)

    def response(self) -> R:
        """See `PendingResponse.response`."""
        try:
            reply = self._waiter.result()
        except CoordinatorError as error:
            return self._refusal(error.error)
        assert isinstance(reply, self._reply_type)
        return reply
