"""The errors that the kit raises. Those that end up in a test are RuntimeError or LookupError, too."""

from collections.abc import Container

from odradek.wire.errors import ErrorCode


class KitError(RuntimeError):
    """The broker refuses a request of the kit; `code` is Kafka's name of the error."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class TemporaryError(KitError):
    """An error that is over once a leader or a coordinator is there."""


class UnreachableError(RuntimeError):
    """No broker answers; the request may or may not have taken effect."""


class UnknownTopicError(LookupError):
    """There is no topic of this name."""


class UnknownGroupError(LookupError):
    """There is no group of this name: it has no member, and has committed nothing."""


def check(code: int, what: str, message: str | None = None, temporary: Container[ErrorCode] | None = None) -> None:
    """Raise TemporaryError for an error of `temporary`, by default any retriable one, and KitError for another."""
    if not code:
        return
    error = ErrorCode(code) if code in ErrorCode.__members__.values() else ErrorCode.UNKNOWN_SERVER_ERROR
    is_temporary = error.retriable if temporary is None else error in temporary
    kind = TemporaryError if is_temporary else KitError
    raise kind(f"{what}: {error.name}: {message or error.message}", error.name)
