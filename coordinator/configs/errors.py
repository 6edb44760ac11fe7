"""The refusal of a request, with Kafka's error code and message."""

from odradek.wire.errors import ErrorCode


class RefusedError(Exception):
    """The request is not allowed; `code` and `message` are sent to the client."""

    def __init__(self, code: ErrorCode, message: str | None) -> None:
        super().__init__(message or code.message)
        self.code = code
        self.message = message


class ConfigRefusedError(RefusedError):
    """A config's name or value is not allowed."""

    message: str

    def __init__(self, message: str, code: ErrorCode = ErrorCode.INVALID_CONFIG) -> None:
        super().__init__(code, message)


def bad_value(name: str, value: object, why: str) -> ConfigRefusedError:
    """Returns the refusal of one value, with Kafka's message."""
    return ConfigRefusedError(f"Invalid value {value} for configuration {name}: {why}")
